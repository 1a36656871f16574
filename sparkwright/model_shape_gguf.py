"""GGUF headers: a model's shape and its tensors, without reading a weight.

The format is ggml's docs/gguf.md, versions 2 and 3; sizes of blocks are those of ggml-common.h.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from sparkwright.errors import SparkwrightError
from sparkwright.model_shape import FULL, NONE, SLIDING, STATE, Experts, ModelShape
from sparkwright.roofline import Tensor

# Scalars of metadata: struct's letter by GGUF's number of the type.
_SCALARS: Final = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
# ggml type -> (elements, bytes) of a block.
_BLOCKS: Final = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
    40: (64, 36),
}  # fmt: skip
# Layers that slide where the metadata holds a window but no pattern: llama.cpp's src/models.
_SLIDING_OF: Final = {"gpt-oss": 2, "gemma3": 6}


def read(path: Path) -> tuple[dict[str, Any], list[Tensor]]:
    """Metadata and tensors of one file.

    Raises SparkwrightError when it is no GGUF file, or cut off.
    """
    try:
        with path.open("rb") as file:
            return _read(file, path)
    except struct.error:
        raise SparkwrightError(f"{path}: ends inside of its header; fetch it again") from None


def _read(file: BinaryIO, path: Path) -> tuple[dict[str, Any], list[Tensor]]:
    magic, version = struct.unpack("<4sI", file.read(8))
    if magic != b"GGUF" or version not in (2, 3):
        raise SparkwrightError(f"{path}: is not a GGUF file of version 2 or 3")
    tensors, pairs = struct.unpack("<QQ", file.read(16))
    metadata = {_text(file): _value(file, _one(file, "I")) for _ in range(pairs)}
    return metadata, [_tensor(file, path) for _ in range(tensors)]


def _one(file: BinaryIO, letter: str) -> Any:
    return struct.unpack("<" + letter, file.read(struct.calcsize("<" + letter)))[0]


def _text(file: BinaryIO) -> str:
    return file.read(_one(file, "Q")).decode(errors="replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _text(file)
    if kind == _ARRAY:
        inner, count = _one(file, "I"), _one(file, "Q")
        return [_value(file, inner) for _ in range(count)]
    if kind not in _SCALARS:
        raise SparkwrightError(f"GGUF: metadata of unknown type {kind}; the file is damaged")
    return _one(file, _SCALARS[kind])


def _tensor(file: BinaryIO, path: Path) -> Tensor:
    name = _text(file)
    shape = [_one(file, "Q") for _ in range(_one(file, "I"))]
    kind = _one(file, "I")
    _one(file, "Q")  # where it lies
    return tensor(name, shape, kind, str(path))


def tensor(name: str, shape: list[int], kind: int, where: str) -> Tensor:
    """A tensor of a ggml type. Raises SparkwrightError for a type whose size is not known."""
    if kind not in _BLOCKS:
        raise SparkwrightError(
            f"{where}: {name} has ggml type {kind}, whose size is not known here"
        )
    per, size = _BLOCKS[kind]
    # ggml counts the fastest dimension first, so that the last one is what a row lookup picks from.
    return Tensor(name, math.prod(shape) // per * size, rows=shape[-1] if shape else 1)


def shape_of(metadata: Mapping[str, Any], where: str) -> ModelShape:
    """The shape in GGUF's metadata. Raises SparkwrightError that names what is absent."""
    arch = metadata.get("general.architecture", "?")
    said = {key.removeprefix(f"{arch}."): value for key, value in metadata.items()}
    wanted = ("block_count", "embedding_length", "attention.head_count")
    missing = [key for key in wanted if key not in said]
    if missing:
        raise SparkwrightError(f"{where}: the metadata lacks {', '.join(missing)} of {arch}")
    heads = _largest(said["attention.head_count"])
    head = said["embedding_length"] // max(heads, 1)
    inner, state = said.get("ssm.inner_size", 0), said.get("ssm.state_size", 0)
    groups, used = said.get("ssm.group_count", 0), said.get("expert_used_count", 0)
    return ModelShape(
        layers=tuple(_kind(metadata, arch, number) for number in range(said["block_count"])),
        kv_heads=_largest(said.get("attention.head_count_kv", heads)),
        key=said.get("attention.key_length", head),
        value=said.get("attention.value_length", head),
        window=_largest(said.get("attention.sliding_window", 0)),
        conv=(said.get("ssm.conv_kernel", 1) - 1) * (inner + 2 * groups * state),
        ssm=state * inner,
        hidden=said["embedding_length"],
        vocab=said.get("vocab_size") or len(metadata.get("tokenizer.ggml.tokens", ())),
        context=said.get("context_length", 0),
        experts=Experts(said["expert_count"], used) if used else None,
    )


def _largest(value: Any) -> int:
    return max(value) if isinstance(value, list) else int(value)


def _kind(metadata: Mapping[str, Any], arch: str, number: int) -> str:
    kv = metadata.get(f"{arch}.attention.head_count_kv")
    inner = metadata.get(f"{arch}.ssm.inner_size", 0)
    if isinstance(kv, list) and kv[number] == 0:
        wide = metadata.get(f"{arch}.feed_forward_length", 0)
        # Nemotron-H: a layer is either a mixer or a feed-forward, which keeps nothing.
        return NONE if isinstance(wide, list) and wide[number] else STATE
    every = metadata.get(f"{arch}.full_attention_interval", 4)  # llama.cpp's default, qwen3next
    if inner and not isinstance(kv, list):
        return FULL if (number + 1) % every == 0 else STATE
    if not metadata.get(f"{arch}.attention.sliding_window"):
        return FULL
    pattern = metadata.get(f"{arch}.attention.sliding_window_pattern", _SLIDING_OF.get(arch))
    if isinstance(pattern, list):
        return SLIDING if pattern[number] else FULL
    if pattern:  # llama-hparams.cpp, set_swa_pattern: the last of each group sees everything
        return FULL if number % pattern == pattern - 1 else SLIDING
    return SLIDING
