"""Tiny GGUF models that a real llama-server loads and that answer a known text.

Token embeddings are one-hot and the attention-output and ffn-down weights are zero, so only the
last token counts, and output.weight is a table of next tokens: a scripted chain. Asked anything, it
says SPARK and stops. Every kernel still runs (attention, RoPE, MXFP4 experts); only the result is
known. Method and shapes: stack.md 2.7.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import quantize

Q8 = gguf.GGMLQuantizationType.Q8_0
MXFP4 = gguf.GGMLQuantizationType.MXFP4
ANSWER = "SPARK"
LAYERS = 2
CONTEXT = 8192
# The loader refuses a gpt2 vocabulary without merges.
MERGES = ["Ġ t", "Ġ a", "h e"]
SPECIAL = {
    "gpt-oss": [
        "<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>",
        "<|start|>", "<|end|>", "<|message|>", "<|call|>",
    ],
    "llama": ["<|begin|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"],
}  # fmt: skip
CHATML = (
    "{%- for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_characters() -> list[str]:
    """GPT-2's map from a byte to a printable character."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {byte: chr(byte) for byte in plain}
    table |= {byte: chr(256 + place) for place, byte in enumerate(others)}
    return [table[byte] for byte in range(256)]


class Vocabulary:
    """Bytes, three merges, the family's special tokens, padded to a multiple of 32."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.bytes = byte_characters()
        self.tokens = self.bytes + [merge.replace(" ", "") for merge in MERGES]
        self.types = [gguf.TokenType.NORMAL] * len(self.tokens)
        self.tokens += SPECIAL[arch]
        self.types += [gguf.TokenType.CONTROL] * len(SPECIAL[arch])
        while len(self.tokens) % 32:
            self.tokens.append(f"<|pad{len(self.tokens)}|>")
            self.types.append(gguf.TokenType.UNUSED)
        self.ids = {token: number for number, token in enumerate(self.tokens)}

    def text(self, text: str) -> list[int]:
        """Token numbers of a text, byte by byte."""
        return [self.ids[self.bytes[byte]] for byte in text.encode()]

    def chain(self) -> list[int]:
        """What follows the last token of the prompt; gpt-oss's ends in "assistant"."""
        if self.arch == "llama":
            return [*self.text("\n"), *self.text(ANSWER), self.ids["<|im_end|>"]]
        channel, message = self.ids["<|channel|>"], self.ids["<|message|>"]
        answer = [*self.text(ANSWER), self.ids["<|return|>"]]
        return [*self.text("t"), channel, *self.text("final"), message, *answer]


class Model:
    """A GGUF being written; the random part comes from a fixed seed, so bytes are the same."""

    def __init__(self, path: Path, arch: str, template: str, shards: bool) -> None:
        # Shards as in ggml-org/gpt-oss-120b-GGUF: a small first one with the metadata.
        split: Any = {"split_max_tensors": 20, "small_first_shard": True} if shards else {}
        self.writer: Any = gguf.GGUFWriter(str(path), arch, **split)
        self.vocabulary = Vocabulary(arch)
        self.random = np.random.default_rng(1)
        self.width = len(self.vocabulary.tokens)
        self.template = template

    def noise(self, *shape: int) -> Any:
        """Small random weights."""
        return self.random.standard_normal(shape, dtype=np.float32) * 0.05

    def add(self, name: str, value: Any, kind: Any = None) -> None:
        """Add a tensor, quantized when `kind` is given."""
        value = value.astype(np.float32)
        if kind is None:
            self.writer.add_tensor(name, value)
        else:
            self.writer.add_tensor(name, quantize(value, kind), raw_dtype=kind)

    def begin(self, pre: str, start: str, end: str) -> None:
        """Metadata that both families have."""
        writer, vocabulary = self.writer, self.vocabulary
        writer.add_name(f"tiny-scripted-{vocabulary.arch}")
        writer.add_license("cc0-1.0")
        writer.add_description("scripted, for tests of the way to a served model only")
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(self.width)
        writer.add_block_count(LAYERS)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_vocab_size(self.width)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(vocabulary.tokens)
        writer.add_token_types(vocabulary.types)
        writer.add_token_merges(MERGES)
        writer.add_bos_token_id(vocabulary.ids[start])
        writer.add_eos_token_id(vocabulary.ids[end])
        writer.add_add_bos_token(False)
        writer.add_chat_template(self.template)
        self.add("token_embd.weight", np.eye(self.width, dtype=np.float32))

    def finish(self) -> None:
        """The table of next tokens, then everything to disk."""
        chain = self.vocabulary.chain()
        table = np.zeros((self.width, self.width), np.float32)
        table[chain[-1], :] = 0.5  # anything unexpected: stop
        for current, following in pairwise(chain):
            table[:, current] = 0
            table[following, current] = 1.0
        self.add("output_norm.weight", np.ones(self.width))
        self.add("output.weight", table)
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def write_llama(path: Path, hidden: int = 128) -> None:
    """A llama-shaped model in one file.

    + hidden: width of the feed-forward layers; 1000 more are 1.8 MB more to load
    """
    model = Model(path, "llama", CHATML, shards=False)
    heads, kv, width = 9, 3, model.width
    size = width // heads
    model.begin("gpt-2", "<|begin|>", "<|im_end|>")
    writer = model.writer
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(10000.0)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        model.add(block + "attn_norm.weight", np.ones(width))
        model.add(block + "ffn_norm.weight", np.ones(width))
        model.add(block + "attn_q.weight", model.noise(width, width), Q8)
        model.add(block + "attn_k.weight", model.noise(size * kv, width), Q8)
        model.add(block + "attn_v.weight", model.noise(size * kv, width), Q8)
        model.add(block + "attn_output.weight", np.zeros((width, width)), Q8)
        model.add(block + "ffn_gate.weight", model.noise(hidden, width), Q8)
        model.add(block + "ffn_up.weight", model.noise(hidden, width), Q8)
        model.add(block + "ffn_down.weight", np.zeros((width, hidden)), Q8)
    model.finish()


HEADS, KV, SIZE, HIDDEN, EXPERTS, USED = 4, 2, 64, 64, 4, 2


def write_gpt_oss(path: Path, template: str) -> None:
    """A gpt-oss-shaped model in shards `…-00001-of-0000N.gguf`.

    + template: OpenAI's harmony chat template
    """
    model = Model(path, "gpt-oss", template, shards=True)
    model.begin("gpt-4o", "<|startoftext|>", "<|return|>")
    writer = model.writer
    writer.add_feed_forward_length(HIDDEN)
    writer.add_expert_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_key_length(SIZE)
    writer.add_value_length(SIZE)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_sliding_window(128)
    writer.add_rope_dimension_count(SIZE)
    writer.add_rope_freq_base(150000.0)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(32.0)
    writer.add_rope_scaling_orig_ctx_len(4096)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_MXFP4_MOE)
    for layer in range(LAYERS):
        _gpt_oss_layer(model, f"blk.{layer}.")
    model.finish()


def _gpt_oss_layer(model: Model, block: str) -> None:
    width = model.width
    model.add(block + "attn_norm.weight", np.ones(width))
    model.add(block + "post_attention_norm.weight", np.ones(width))
    for name, rows in (("q", HEADS * SIZE), ("k", KV * SIZE), ("v", KV * SIZE)):
        model.add(f"{block}attn_{name}.weight", model.noise(rows, width), Q8)
        model.add(f"{block}attn_{name}.bias", model.noise(rows))
    model.add(block + "attn_output.weight", np.zeros((width, HEADS * SIZE)), Q8)
    model.add(block + "attn_output.bias", np.zeros(width))
    model.add(block + "attn_sinks.weight", model.noise(HEADS))
    model.add(block + "ffn_gate_inp.weight", model.noise(EXPERTS, width))
    model.add(block + "ffn_gate_inp.bias", model.noise(EXPERTS))
    for name, rows, columns in (("gate", HIDDEN, width), ("up", HIDDEN, width)):
        value = model.noise(EXPERTS, rows, columns)
        model.add(f"{block}ffn_{name}_exps.weight", value, MXFP4)
        model.add(f"{block}ffn_{name}_exps.bias", model.noise(EXPERTS, rows))
    model.add(block + "ffn_down_exps.weight", np.zeros((EXPERTS, width, HIDDEN)), MXFP4)
    model.add(block + "ffn_down_exps.bias", np.zeros((EXPERTS, width)))
