"""Decode roofs against the worked values for gpt-oss-120b (stack.md 6), by number format."""

from __future__ import annotations

import pytest

from sparkwright.errors import SparkwrightError
from sparkwright.model_shape import from_config
from sparkwright.model_shape_files import known
from sparkwright.roofline import Tensor, of_roof, read_per_token, roof
from sparkwright.roofline_tensors import Formats, tensors

GPT_OSS = known()["openai/gpt-oss-120b"]["config"]
SHAPE = from_config(GPT_OSS)
Q8 = Formats(attention="q8_0", output="q8_0", experts="mxfp4")
BF16 = Formats(attention="bf16", output="bf16", experts="mxfp4")
MXFP4 = Formats(attention="mxfp4", output="mxfp4", experts="mxfp4")


@pytest.mark.parametrize(
    ("formats", "gigabytes", "rate"), [(Q8, 3.59, 76), (BF16, 5.03, 54), (MXFP4, 2.77, 99)]
)
def test_the_worked_values(formats: Formats, gigabytes: float, rate: int) -> None:
    read = read_per_token(tensors(GPT_OSS, formats), SHAPE)
    assert read / 1e9 == pytest.approx(gigabytes, rel=0.002)
    # The sources counted biases too (0.2 %), and 98.5 was rounded up.
    assert roof(read, SHAPE).rate == pytest.approx(rate, rel=0.006)


def test_the_measured_rates_stand_below_their_roofs() -> None:
    """58.72 tok/s at the start and 42.76 behind 32,768 tokens (ggml-org's benches, b7941)."""
    read = read_per_token(tensors(GPT_OSS, Q8), SHAPE)
    assert of_roof(58.72, roof(read, SHAPE)) == pytest.approx(0.77, abs=0.005)
    deep = roof(read, SHAPE, depth=32768)
    assert deep.kv == pytest.approx(1.213e9, rel=0.001)
    assert of_roof(42.76, deep) == pytest.approx(0.75, abs=0.01)


def test_the_whole_file_is_as_large_as_published() -> None:
    """63,387,346,464 bytes on the Hub; the rest is the biases of experts (159 MB) and names."""
    total = sum(tensor.bytes for tensor in tensors(GPT_OSS, Q8))
    assert total == pytest.approx(63_387_346_464, rel=0.003)


def test_a_tied_embedding_is_read_whole_and_another_by_one_row() -> None:
    rest = Tensor("blk.0.attn_q.weight", 100, 10)
    table = Tensor("token_embd.weight", 1000, 10)
    dense = from_config({**GPT_OSS, "num_local_experts": 0})
    assert read_per_token([rest, table], dense) == 1100
    assert read_per_token([rest, table, Tensor("output.weight", 1000, 10)], dense) == 1200


def test_shared_experts_are_read_whole_and_drafts_not_at_all() -> None:
    routed = Tensor("model.layers.0.mlp.experts.gate_up_proj", 3200, 128)
    shared = Tensor("model.layers.0.mlp.shared_expert.up_proj.weight", 10, 1)
    draft = Tensor("mtp.layers.0.mlp.up_proj.weight", 999, 1)
    assert read_per_token([routed, shared, draft, Tensor("lm_head.weight", 1, 1)], SHAPE) == 111


def test_a_recurrent_model_needs_its_files() -> None:
    config = known()["Qwen/Qwen3.5-35B-A3B-FP8"]["config"]
    with pytest.raises(SparkwrightError, match="give --dir"):
        tensors(config, Q8)
