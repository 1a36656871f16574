"""A tensor list out of a config, for the roof of a model whose files are not at hand. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparkwright.errors import SparkwrightError
from sparkwright.model_shape import STATE, from_config
from sparkwright.roofline import Tensor

# Bytes of an element, scales included (ggml-common.h; OCP MX v1.0: 32 elements share 8 bits;
# NVFP4: 16 elements share 8 bits).
FORMATS: Final = {
    "f32": 4.0, "bf16": 2.0, "f16": 2.0, "fp8": 1.0, "q8_0": 34 / 32, "mxfp4": 17 / 32,
    "nvfp4": 9 / 16,
}  # fmt: skip


@dataclass(frozen=True)
class Formats:
    """Number format of each role, by FORMATS' names."""

    attention: str
    output: str
    experts: str
    router: str = "f32"


def tensors(config: Mapping[str, Any], formats: Formats) -> list[Tensor]:
    """
    Tensors of a model of attention and routed experts, as large as gpt-oss' files hold them.

    + config: of transformers, such as model-configs.json holds

    Raises SparkwrightError for a model with recurrent layers: its files must be read.
    """
    shape = from_config(config)
    if STATE in shape.layers or shape.experts is None:
        raise SparkwrightError("only models of attention and routed experts; give --dir instead")
    hidden, wide = shape.hidden, config.get("moe_intermediate_size", config["intermediate_size"])
    query = config["num_attention_heads"] * shape.key
    attention = hidden * (2 * query + shape.kv_elements)
    every = len(shape.layers)
    table = shape.vocab * hidden
    total = shape.experts.total
    rows = [
        ("token_embd.weight", table, formats.output, shape.vocab),
        ("output.weight", table, formats.output, shape.vocab),
        ("attn.weight", every * attention, formats.attention, 1),
        ("ffn_gate_inp.weight", every * hidden * total, formats.router, 1),
        ("ffn_exps.weight", every * total * 3 * hidden * wide, formats.experts, total),
    ]
    return [Tensor(name, int(many * FORMATS[kind]), first) for name, many, kind, first in rows]
