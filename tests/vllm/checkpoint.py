"""A tiny Hugging Face checkpoint that a real vLLM loads and that answers a known text.

The method is tests/lab/tiny_gguf.py's: one-hot embeddings, zero attention-output and mlp-down
weights, and an output head that is a table of next tokens. Every kernel runs; only the result is
known. Which answer comes depends on the last token of the prompt, which the chat template picks:
one for a plain question, one when a system message is there, one when a long answer is asked for.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tests.lab.tiny_gguf import LAYERS, byte_characters

# Pieces of at least two letters: one letter is a token of the byte vocabulary already.
PLAIN = ("SP", "ARK")
MARKER = ("BAN", "ANA")
LONG = tuple(f"Ġ{number}" for number in range(1, 61))
CONTEXT = 2048
HIDDEN, HEADS, KV = 128, 8, 4
SPECIAL = ("<|pad|>", "<|end|>", "<|plain|>", "<|system|>", "<|long|>", "<|turn|>")
TEMPLATE = (
    "{%- for m in messages %}<|turn|>{{ m['role'] }}\n{{ m['content'] }}{%- endfor %}"
    "{%- if 'count' in messages[-1]['content'] %}<|long|>"
    "{%- elif messages[0]['role'] == 'system' %}<|system|>{%- else %}<|plain|>{%- endif %}"
)


class Words:
    """The vocabulary: bytes, special tokens, and the pieces of the answers.

    There are no merges, so that no prompt ever holds a piece: each stands in one answer only, and
    the next token is known from it.
    """

    def __init__(self) -> None:
        pieces = [*PLAIN, *MARKER, *LONG]
        names = [*byte_characters(), *SPECIAL, *pieces]
        names += [f"<|unused{n}|>" for n in range(-len(names) % 64)]
        self.vocab = {name: number for number, name in enumerate(names)}

    def chains(self) -> list[list[int]]:
        """Numbers from each prompt's last token to the end token."""
        texts = {"<|plain|>": PLAIN, "<|system|>": MARKER, "<|long|>": LONG}
        return [
            [self.vocab[name] for name in (start, *pieces, "<|end|>")]
            for start, pieces in texts.items()
        ]

    def table(self) -> Any:
        """Row: next token; column: present one."""
        size = len(self.vocab)
        table = np.zeros((size, size), np.float32)
        table[self.vocab["<|end|>"], :] = 0.5  # anything unexpected: stop
        for chain in self.chains():
            for current, following in pairwise(chain):
                table[:, current] = 0
                table[following, current] = 1.0
        return table

    def tokenizer(self) -> dict[str, object]:
        """tokenizer.json of the `tokenizers` library: byte-level BPE without merges."""
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
        added = [
            {"id": self.vocab[name], "content": name, "special": True, "single_word": False,
             "lstrip": False, "rstrip": False, "normalized": False}
            for name in SPECIAL
        ]  # fmt: skip
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": {**level, "use_regex": True},
            "post_processor": None,
            "decoder": level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": self.vocab,
                "merges": [],
            },
        }


def write(folder: Path) -> None:
    """Write config, tokenizer and weights of a llama with two layers; the same bytes each time."""
    folder.mkdir(parents=True)
    words = Words()
    size, end, pad = len(words.vocab), words.vocab["<|end|>"], words.vocab["<|pad|>"]
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": size,
        "hidden_size": size,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "eos_token_id": end,
        "bos_token_id": pad,
        "pad_token_id": pad,
        "torch_dtype": "float32",
    }
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "chat_template": TEMPLATE,
        "model_max_length": CONTEXT,
    }
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\nScripted, for tests only.\n")
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=1))
    (folder / "tokenizer.json").write_text(json.dumps(words.tokenizer()))
    save(folder / "model.safetensors", tensors(words))


def tensors(words: Words) -> Mapping[str, Any]:
    """Weights by the names of transformers' llama, float32."""
    random = np.random.default_rng(1)
    size = len(words.vocab)
    kv = size // HEADS * KV

    def noise(*shape: int) -> Any:
        return random.standard_normal(shape, dtype=np.float32) * 0.05

    found = {
        "model.embed_tokens.weight": np.eye(size, dtype=np.float32),
        "model.norm.weight": np.ones(size, np.float32),
        "lm_head.weight": words.table(),
    }
    for layer in range(LAYERS):
        block = f"model.layers.{layer}."
        found |= {
            f"{block}input_layernorm.weight": np.ones(size, np.float32),
            f"{block}post_attention_layernorm.weight": np.ones(size, np.float32),
            f"{block}self_attn.q_proj.weight": noise(size, size),
            f"{block}self_attn.k_proj.weight": noise(kv, size),
            f"{block}self_attn.v_proj.weight": noise(kv, size),
            f"{block}self_attn.o_proj.weight": np.zeros((size, size), np.float32),
            f"{block}mlp.gate_proj.weight": noise(HIDDEN, size),
            f"{block}mlp.up_proj.weight": noise(HIDDEN, size),
            f"{block}mlp.down_proj.weight": np.zeros((size, HIDDEN), np.float32),
        }
    return found


def save(path: Path, values: Mapping[str, Any]) -> None:
    """A safetensors file: length of the header, the header, the numbers (the format's README)."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, value in values.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(value.shape),
            "data_offsets": [at, at + value.nbytes],
        }
        at += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in values.values():
            file.write(value.tobytes())
