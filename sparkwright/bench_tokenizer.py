"""A tokenizer.json out of the vocabulary in a GGUF file, for tools that count tokens. Pure but one.

Byte-level BPE alone (`tokenizer.ggml.model` gpt2: gpt-oss, Qwen, Llama 3, Nemotron). How a model
splits words before BPE is not in the file by rule but by name, and GPT-2's own rule is taken:
counts differ by a few percent, which llama-benchy corrects by what the server counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkwright import model_shape_gguf


def of_gguf(files: Sequence[Path]) -> str | None:
    """From the first of the shards that holds a vocabulary; None when none does."""
    for path in files:
        text = of_metadata(model_shape_gguf.read(path)[0]) if path.suffix == ".gguf" else None
        if text:
            return text
    return None


def of_metadata(metadata: Mapping[str, Any]) -> str | None:
    """Text of a tokenizer.json (huggingface/tokenizers); None for another kind of vocabulary."""
    tokens = metadata.get("tokenizer.ggml.tokens")
    merges = metadata.get("tokenizer.ggml.merges")
    if metadata.get("tokenizer.ggml.model") != "gpt2" or not tokens or merges is None:
        return None
    vocabulary = {token: number for number, token in enumerate(tokens)}
    known = [merge for merge in merges if merge.replace(" ", "", 1) in vocabulary]
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}  # fmt: skip
    model: dict[str, Any] = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
        "ignore_merges": False, "vocab": vocabulary, "merges": known,
    }  # fmt: skip
    made: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": split, "post_processor": None, "decoder": split,
        "model": model,
    }  # fmt: skip
    return json.dumps(made)
