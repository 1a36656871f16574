"""Whether the files of a recipe make one model that its engine can load. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sparkwright import llama_server

# transformers' sharded checkpoints (modeling_utils.py, split_torch_state_dict_into_shards).
INDEX = "model.safetensors.index.json"
# Any one of these: what AutoTokenizer and vLLM's own tokenizers load (transformers, and Mistral's
# tekken.json in vllm/tokenizers/mistral.py).
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json")
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")


def no_model(serves: str, paths: Sequence[str]) -> list[str]:
    """Why these files are no model for the engine, a phrase each.

    + serves: the engine, or what a container runs; only vLLM reads safetensors
    """
    return _no_checkpoint(paths) if serves == "vllm" else llama_server.no_model(paths)


def _no_checkpoint(paths: Sequence[str]) -> list[str]:
    """vLLM wants config, tokenizer and every shard; files in folders belong to other formats.

    A service without a network finds a missing one only when it starts (vllm#23684, #39039).
    """
    top = [path for path in paths if "/" not in path]
    shards = [match for path in top if (match := _SHARD.fullmatch(path))]
    wrong = []
    if "config.json" not in top:
        wrong.append("no config.json among them; widen the recipe's include")
    if not any(name in top for name in TOKENIZERS):
        wrong.append("no tokenizer.json or the like among them; widen the recipe's include")
    if not shards and not any(path.endswith(".safetensors") for path in top):
        wrong.append("no .safetensors file among them; check the recipe's include")
    if shards and INDEX not in top:
        wrong.append(f"shards, but no {INDEX} that names them; widen the recipe's include")
    return wrong + _missing_shards(shards)


def _missing_shards(shards: Sequence[re.Match[str]]) -> list[str]:
    """Numbers run from 1; gpt-oss-120b has a shard 0 beside them, which only the index names."""
    wrong = []
    for stem, count in sorted({(match["stem"], match["count"]) for match in shards}):
        have = {match["number"] for match in shards if match["stem"] == stem}
        missing = [f"{n:05d}" for n in range(1, int(count) + 1) if f"{n:05d}" not in have]
        if missing:
            what = f"{stem}: shards missing: {', '.join(missing)} of {count}"
            wrong.append(f"{what}; widen the recipe's include")
    return wrong
