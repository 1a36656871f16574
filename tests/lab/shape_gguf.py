"""A random-weight GGUF of gpt-oss-120b's shape with a small vocabulary, for GPU machines.

It computes and reads as much as the real model (MXFP4 experts, q8_0 attention and output), and its
text means nothing. Standard library only: a machine without network has nothing else.

    python -m tests.lab.shape_gguf FILE [--layers 36]    63.4 GB with 36 layers, 1.7 GB for each
"""

from __future__ import annotations

import argparse
import math
import random
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

# ggml types: number, elements and bytes of a block (ggml-common.h).
F32, Q8, MXFP4 = (0, 1, 4), (8, 32, 34), (39, 32, 17)
U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
ALIGN = 32
NORMAL, CONTROL = 1, 3
SPECIAL = ["<|startoftext|>", "<|return|>", "<|im_start|>", "<|im_end|>"]
# ChatML: the harmony template would refuse an answer that is no harmony.
TEMPLATE = (
    "{%- for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Shape:
    """gpt-oss-120b's own numbers (openai/gpt-oss-120b, config.json); smaller ones for a test."""

    layers: int = 36
    hidden: int = 2880
    heads: int = 64
    kv_heads: int = 8
    head: int = 64
    experts: int = 128
    used: int = 4
    wide: int = 2880
    vocab: int = 201088


# For a try without a GPU: every kind of tensor, and nothing to wait for.
TINY = Shape(layers=2, hidden=288, heads=4, kv_heads=2, experts=8, wide=288, vocab=2048)


def tensors(shape: Shape) -> list[tuple[str, tuple[int, ...], tuple[int, int, int]]]:
    """Name, dimensions (the fastest first) and type of every tensor."""
    hidden, wide, many = shape.hidden, shape.wide, shape.experts
    query, kv = shape.heads * shape.head, shape.kv_heads * shape.head
    rows: list[tuple[str, tuple[int, ...], tuple[int, int, int]]] = [
        ("token_embd.weight", (hidden, shape.vocab), Q8),
        ("output.weight", (hidden, shape.vocab), Q8),
        ("output_norm.weight", (hidden,), F32),
    ]
    for layer in range(shape.layers):
        each = [
            ("attn_norm.weight", (hidden,), F32),
            ("post_attention_norm.weight", (hidden,), F32),
            ("attn_sinks.weight", (shape.heads,), F32),
            ("ffn_gate_inp.weight", (hidden, many), F32),
            ("ffn_gate_inp.bias", (many,), F32),
        ]
        for name, into, out in (("q", hidden, query), ("k", hidden, kv), ("v", hidden, kv),
                                ("output", query, hidden)):  # fmt: skip
            each += [(f"attn_{name}.weight", (into, out), Q8), (f"attn_{name}.bias", (out,), F32)]
        for name, into, out in (("gate", hidden, wide), ("up", hidden, wide),
                                ("down", wide, hidden)):  # fmt: skip
            each += [(f"ffn_{name}_exps.weight", (into, out, many), MXFP4),
                     (f"ffn_{name}_exps.bias", (out, many), F32)]  # fmt: skip
        rows += [(f"blk.{layer}.{name}", size, kind) for name, size, kind in each]
    return rows


def size_of(size: tuple[int, ...], kind: tuple[int, int, int]) -> int:
    """Bytes of a tensor."""
    return math.prod(size) // kind[1] * kind[2]


def vocabulary(shape: Shape) -> tuple[list[str], list[int]]:
    """Bytes, one merge, special tokens, and words up to the size of the real one."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {byte: chr(byte) for byte in plain}
    table |= {byte: chr(256 + place) for place, byte in enumerate(others)}
    tokens = [*(table[byte] for byte in range(256)), "\u0120t"]
    count = shape.vocab - len(tokens) - len(SPECIAL)
    tokens += [f"\u0120w{number}" for number in range(count)]
    kinds = [NORMAL] * len(tokens) + [CONTROL] * len(SPECIAL)
    return [*tokens, *SPECIAL], kinds


def metadata(shape: Shape) -> list[tuple[str, int, Any]]:
    """Key, type and value of each entry."""
    tokens, kinds = vocabulary(shape)
    arch = [
        ("block_count", U32, shape.layers), ("context_length", U32, 131072),
        ("embedding_length", U32, shape.hidden), ("feed_forward_length", U32, shape.wide),
        ("expert_feed_forward_length", U32, shape.wide), ("expert_count", U32, shape.experts),
        ("expert_used_count", U32, shape.used), ("attention.head_count", U32, shape.heads),
        ("attention.head_count_kv", U32, shape.kv_heads),
        ("attention.key_length", U32, shape.head), ("attention.value_length", U32, shape.head),
        ("attention.layer_norm_rms_epsilon", FLOAT, 1e-5),
        ("attention.sliding_window", U32, 128), ("rope.freq_base", FLOAT, 150000.0),
        ("rope.dimension_count", U32, shape.head), ("rope.scaling.type", STRING, "yarn"),
        ("rope.scaling.factor", FLOAT, 32.0),
        ("rope.scaling.original_context_length", U32, 4096), ("vocab_size", U32, shape.vocab),
    ]  # fmt: skip
    return [
        ("general.architecture", STRING, "gpt-oss"), ("general.name", STRING, "random weights"),
        *((f"gpt-oss.{key}", kind, value) for key, kind, value in arch),
        ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "gpt-4o"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, kinds)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, ["\u0120 t"])),
        ("tokenizer.ggml.bos_token_id", U32, shape.vocab - 4),
        ("tokenizer.ggml.eos_token_id", U32, shape.vocab - 3),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, TEMPLATE),
    ]  # fmt: skip


def packed(kind: int, value: Any) -> bytes:
    """A value as GGUF writes it (ggml, docs/gguf.md)."""
    if kind == STRING:
        text: bytes = value.encode()
        return struct.pack("<Q", len(text)) + text
    if kind == ARRAY:
        inner, values = value
        return struct.pack("<IQ", inner, len(values)) + b"".join(packed(inner, v) for v in values)
    letters = {U32: "<I", I32: "<i", FLOAT: "<f", BOOL: "<?"}
    return struct.pack(letters[kind], value)


def header(shape: Shape) -> bytes:
    """Everything before the data, padded."""
    rows, pairs, offset = tensors(shape), metadata(shape), 0
    parts = [struct.pack("<4sIQQ", b"GGUF", 3, len(rows), len(pairs))]
    parts += [packed(STRING, key) + struct.pack("<I", kind) + packed(kind, value)
              for key, kind, value in pairs]  # fmt: skip
    for name, size, kind in rows:
        dims = struct.pack(f"<I{len(size)}QIQ", len(size), *size, kind[0], offset)
        parts.append(packed(STRING, name) + dims)
        offset += padded(size_of(size, kind))
    text = b"".join(parts)
    return text.ljust(padded(len(text)), b"\0")


def padded(many: int) -> int:
    """The next multiple of the alignment."""
    return -(-many // ALIGN) * ALIGN


class Noise:
    """Random blocks of each type, long enough that no two experts begin alike."""

    def __init__(self) -> None:
        chance = random.Random(1)
        scale = struct.pack("<e", 0.0005)
        self.blocks = {
            # 120 is 2 ** -7 in E8M0: activations stay small through 36 layers.
            MXFP4: b"".join(b"\x78" + chance.randbytes(16) for _ in range(400_009)),
            Q8: b"".join(scale + chance.randbytes(32) for _ in range(200_003)),
            F32: array("f", (chance.gauss(0, 0.02) for _ in range(400_009))).tobytes(),
        }
        self.place = dict.fromkeys(self.blocks, 0)

    def write(self, file: BinaryIO, kind: tuple[int, int, int], many: int) -> None:
        """So many bytes of a type: on from where the last tensor of that type ended."""
        block = memoryview(self.blocks[kind])
        rest = many
        while rest:
            part = block[self.place[kind] : self.place[kind] + rest]
            file.write(part)
            rest -= len(part)
            self.place[kind] = (self.place[kind] + len(part)) % len(block)
        file.write(b"\0" * (padded(many) - many))


def write(path: Path, shape: Shape) -> int:
    """Write the model; returns its bytes."""
    noise, ones = Noise(), array("f", [1.0] * shape.hidden).tobytes()
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(header(shape))
        for name, size, kind in tensors(shape):
            many = size_of(size, kind)
            if name.endswith("norm.weight"):
                file.write(ones.ljust(padded(many), b"\0"))
            else:
                noise.write(file, kind, many)
    partial.rename(path)
    return path.stat().st_size


def main() -> None:
    """Write a model of so many layers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--layers", type=int, default=36)
    options = parser.parse_args()
    print(f"{options.path}: {write(options.path, Shape(layers=options.layers)):,} bytes")


if __name__ == "__main__":
    main()
