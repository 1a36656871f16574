"""The service of the golden unit: gpt-oss-120b on one spark, with fixed places."""

from __future__ import annotations

from pathlib import Path

from sparkwright import llama_server
from sparkwright.recipes import load_recipe
from sparkwright.units import Service

ROOT = Path(__file__).parents[2]
NAME = "llm-gpt-oss-120b-llamacpp"
GOLDEN = ROOT / "tests" / "golden" / f"{NAME}.service"


def golden_service() -> Service:
    """The real recipe; the rest as on a machine with one running unit and an API key."""
    recipe = load_recipe(ROOT / "recipes" / "gpt-oss-120b-llamacpp.yaml")
    weights = "/srv/sparkwright/weights/ggml-org/gpt-oss-120b-GGUF"
    shards = [f"gpt-oss-120b-mxfp4-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    argv = llama_server.argv(
        recipe,
        binary="/opt/sparkwright/llama.cpp/0a1b2c3d4e5f/bin/llama-server",
        model=f"{weights}/{llama_server.first_shard(shards)}",
        port=recipe.port,
        listen="127.0.0.1",
        api_key_file="/etc/sparkwright/api-key",
    )
    tiktoken = "/srv/sparkwright/tiktoken"
    return Service(
        name=NAME,
        description=recipe.description,
        user="llm",
        argv=argv,
        env={
            "TIKTOKEN_CACHE_DIR": tiktoken,
            "TIKTOKEN_ENCODINGS_BASE": tiktoken,
            "TIKTOKEN_RS_CACHE_DIR": tiktoken,
            **llama_server.offline(None),
        },
        port=recipe.port,
        listen="127.0.0.1",
        memory_gib=recipe.memory_gib,
        load_timeout_s=recipe.load_timeout_s,
        conflicts=("llm-other",),
        weights_dir=weights,
        cache_dir=f"/srv/sparkwright/cache/{NAME}",
        api_key_file="/etc/sparkwright/api-key",
        lib_dir="/opt/sparkwright/lib",
        ollama_url="http://127.0.0.1:11434",
        devices=("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"),
        digest="0123456789ab",
    )
