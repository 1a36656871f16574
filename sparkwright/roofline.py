"""The memory-bandwidth roof of decoding: bandwidth over the bytes that one token reads. Pure.

One token reads of every weight what it uses: all of attention and output, of the routed experts
only those that the router picks, of the embedding one row; and the KV cache as deep as it is.
"The whole model over the bandwidth" is no roof: gpt-oss-120b would get 4 tok/s by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sparkwright.kv_cache import depth_bytes
from sparkwright.model_shape import ModelShape

GB10_BANDWIDTH: Final = 273e9  # bytes/s, NVIDIA's data sheet of DGX Spark (LPDDR5x)
# Experts of all tokens lie in one tensor: `_exps` in GGUF, `experts` in safetensors. Shared experts
# (`_shexp`, `shared_expert`) are read by every token.
_EXPERTS = re.compile(r"_exps\.|\bexperts\b")
_EMBEDDING = re.compile(r"token_embd\.weight$|embed_tokens\.weight$|\bembeddings?\.weight$")
_OUTPUT = re.compile(r"^output\.weight$|lm_head\.weight$")
# What decoding of text does not read: the draft layer, and the part for images.
_UNUSED = re.compile(r"(^|\.)(mtp|nextn|visual|vision_tower|vision_model)\b")


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file.

    + bytes: as it is stored, scales included
    + rows: entries of its outermost dimension: tokens of an embedding
    """

    name: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class Roof:
    """What a token reads, and the tokens per second that this allows.

    + weights, kv: bytes
    + rate: tok/s for one user
    """

    weights: float
    kv: float
    rate: float


def read_per_token(tensors: Iterable[Tensor], shape: ModelShape) -> float:
    """Bytes of weights that one decoded token reads."""
    items = [tensor for tensor in tensors if not _UNUSED.search(tensor.name)]
    tied = not any(_OUTPUT.search(tensor.name) for tensor in items)
    share = shape.experts.used / shape.experts.total if shape.experts else 1.0
    total = 0.0
    for tensor in items:
        if _EMBEDDING.search(tensor.name):
            # A tied embedding is the output matrix as well, which is read whole.
            total += tensor.bytes if tied else tensor.bytes / max(tensor.rows, 1)
        elif _EXPERTS.search(tensor.name):
            total += tensor.bytes * share
        else:
            total += tensor.bytes
    return total


def roof(
    weights: float,
    shape: ModelShape,
    depth: int = 0,
    kv_bytes: float = 2,
    bandwidth: float = GB10_BANDWIDTH,
) -> Roof:
    """
    The roof of one user at a depth.

    + weights: bytes that a token reads, see `read_per_token`
    + depth: tokens in the context so far
    + kv_bytes: of one element in the KV cache: 2 for f16, 1 for fp8
    """
    kv = depth_bytes(shape, depth, kv_bytes)
    return Roof(weights, kv, bandwidth / (weights + kv))


def of_roof(measured: float, roof_: Roof) -> float:
    """A measured rate as a share of its roof; above 1 something was counted wrong."""
    return measured / roof_.rate
