"""What vLLM 0.17.1, our patched 0.17.1, and 0.33.0 make of the same chats for gpt-oss."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sparkwright.wheel_sets import find_uv
from tests.lab.host import cache_dir, locked, made_beside
from tests.lab.vocabulary import prepare_vocab
from tests.wheels.remote import sources

RENDER = Path(__file__).with_name("render.py")
UTILS = "vllm/entrypoints/openai/parser/harmony_utils.py"
OLD, NEW = "vllm==0.17.1", "vllm==0.33.0"
SERVING = {
    OLD: "vllm/entrypoints/openai/chat_completion/serving.py",
    NEW: "vllm/renderers/online_renderer.py",
}
# What each release depends on.
HARMONY = {OLD: "openai-harmony==0.0.8", NEW: "oss-harmony==0.0.11"}
MXFP4 = "vllm/model_executor/layers/quantization/mxfp4.py"
SYSTEM = {"role": "system", "content": "Always answer in French."}
USER = {"role": "user", "content": "Hi"}
TOOL = {"name": "now", "description": "The time.", "parameters": {"type": "object"}}
PARTS = [{"type": "text", "text": "Always answer "}, {"type": "text", "text": "in French."}]
CHATS: dict[str, dict[str, Any]] = {
    "system and user": {"messages": [SYSTEM, USER]},
    "user alone": {"messages": [USER]},
    "system in parts": {"messages": [{"role": "system", "content": PARTS}, USER]},
    "developer and user": {"messages": [{**SYSTEM, "role": "developer"}, USER]},
    "with a tool": {"messages": [SYSTEM, USER], "tools": [TOOL]},
    "a tool alone": {"messages": [USER], "tools": [TOOL]},
    "a tool that is not to be used": {
        "messages": [SYSTEM, USER], "tools": [TOOL], "include_tools": False,
    },
    "two turns, high effort": {
        "messages": [SYSTEM, USER, {"role": "assistant", "content": "Salut"}, USER],
        "reasoning_effort": "high",
    },
    "a second system message": {
        "messages": [SYSTEM, USER, {"role": "system", "content": "Be brief."}, USER],
    },
}  # fmt: skip


def files_of(release: str) -> Path:
    """The release's own files, out of its wheel for aarch64."""
    names = [UTILS, SERVING[release]]
    if release == OLD:
        names += [
            MXFP4,
            MXFP4.replace("mxfp4.py", "utils/quant_utils.py"),
            MXFP4.replace("mxfp4.py", "utils/nvfp4_utils.py"),
        ]
    with locked(cache_dir() / "vllm-sources.lock"):
        return sources(release, names)


def patched_files(folder: Path, patches: Any, patch: dict[str, Any]) -> Path:
    """A copy of 0.17.1's files with a patch applied.

    + patches: the machine's program vllm_patches
    """
    shutil.copytree(files_of(OLD), folder, dirs_exist_ok=True)
    patches.apply_all(folder, "0.17.1", [patch])
    return folder


def rendered(release: str, folder: Path | None = None) -> list[dict[str, str]]:
    """Prompts by chat: first without, then with VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS."""
    vocabulary = prepare_vocab().parent
    env = {**os.environ, "TIKTOKEN_ENCODINGS_BASE": str(vocabulary)}
    place = folder or files_of(release)
    with tempfile.TemporaryDirectory() as temporary:
        chats = Path(temporary, "chats.json")
        chats.write_text(json.dumps(list(CHATS.values())))
        words = [_python(HARMONY[release]), RENDER, place, SERVING[release], chats]
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, env=env, check=False
        )
    if done.returncode != 0:
        raise RuntimeError(f"{release}: {done.stderr}")
    both: list[list[str]] = json.loads(done.stdout)
    return [dict(zip(CHATS, texts, strict=True)) for texts in both]


def _python(requirement: str) -> Path:
    """A Python of the lab's cache that has a harmony library, made once."""
    key = hashlib.sha256(f"{requirement} {sys.version}".encode()).hexdigest()[:12]
    target = cache_dir() / "harmony" / key
    with locked(cache_dir() / "harmony.lock"):
        if not target.exists():
            with made_beside(target) as folder:
                words = [find_uv(), "venv", "--quiet", "--relocatable", "--python", sys.executable]
                subprocess.run([*words, str(folder / "venv")], check=True)
                python = str(folder / "venv/bin/python")
                install = [find_uv(), "pip", "install", "--quiet", "--python", python]
                subprocess.run([*install, "--only-binary", ":all:", requirement], check=True)
    return target / "venv/bin/python"
