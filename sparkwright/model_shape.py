"""A model's shape: what decides how much memory a token of context takes. Pure.

Read from a `config.json` of transformers here, from GGUF's metadata in model_shape_gguf.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparkwright.errors import SparkwrightError

FULL, SLIDING, STATE, NONE = "full", "sliding", "state", "none"
# Names of layers in `layer_types`, `layers_block_type` and letters of `hybrid_override_pattern`.
_KINDS: Final[Mapping[str, str]] = {
    "full_attention": FULL,
    "attention": FULL,
    "sliding_attention": SLIDING,
    "chunked_attention": SLIDING,
    "linear_attention": STATE,
    "mamba": STATE,
    "mamba2": STATE,
    "moe": NONE,
    "mlp": NONE,
    "*": FULL,
    "M": STATE,
    "E": NONE,
    "-": NONE,
}


@dataclass(frozen=True)
class Experts:
    """Routed experts.

    + total, used: of a layer, and of them for one token
    """

    total: int
    used: int


@dataclass(frozen=True)
class ModelShape:
    """What the caches are made of.

    + layers: kind of each layer: full (attention over everything), sliding (over the last
      `window` tokens), state (of a fixed size for each request), none (keeps nothing)
    + key, value: elements of one head
    + conv, ssm: elements of one state layer for one request; the two may differ in their type
    + hidden, vocab: widths
    + context: tokens that it was trained for; 0 when that is not said
    """

    layers: tuple[str, ...]
    kv_heads: int
    key: int
    value: int
    window: int
    conv: int
    ssm: int
    hidden: int
    vocab: int
    context: int
    experts: Experts | None = None

    def count(self, kind: str) -> int:
        """Layers of a kind."""
        return self.layers.count(kind)

    @property
    def kv_elements(self) -> int:
        """Elements that one attention layer keeps for one token."""
        return self.kv_heads * (self.key + self.value)


def from_config(config: Mapping[str, Any], where: str = "config.json") -> ModelShape:
    """The shape in a config of transformers; of a model with images, its text part.

    Raises SparkwrightError that names what is absent.
    """
    text = {**config, **config.get("text_config", {})}
    hidden, heads = _need(text, "hidden_size", where), _need(text, "num_attention_heads", where)
    latent = text.get("kv_lora_rank")  # MLA keeps one compressed vector instead of heads
    head = text.get("head_dim") or hidden // heads
    conv, ssm = _state(text)
    layers = _layers(text, where)
    if STATE in layers and not ssm:
        raise SparkwrightError(f"{where}: says layers with a state, but not how large it is")
    return ModelShape(
        layers=layers,
        kv_heads=1 if latent else int(text.get("num_key_value_heads") or heads),
        key=latent + text.get("qk_rope_head_dim", 0) if latent else head,
        value=0 if latent else int(text.get("v_head_dim") or head),
        window=int(text.get("sliding_window") or text.get("attention_chunk_size") or 0),
        conv=conv,
        ssm=ssm,
        hidden=hidden,
        vocab=_need(text, "vocab_size", where),
        context=int(text.get("max_position_embeddings") or 0),
        experts=_experts(text),
    )


def _need(text: Mapping[str, Any], key: str, where: str) -> int:
    value = text.get(key)
    if not isinstance(value, int):
        raise SparkwrightError(f"{where}: {key} is missing; is it a language model's config?")
    return value


def _layers(text: Mapping[str, Any], where: str) -> tuple[str, ...]:
    named = text.get("layer_types") or text.get("layers_block_type")
    named = named or text.get("hybrid_override_pattern")
    if named:
        unknown = sorted({str(kind) for kind in named} - set(_KINDS))
        if unknown:
            known = ", ".join(unknown)
            raise SparkwrightError(f"{where}: layers of unknown kind ({known}); cannot be sized")
        return tuple(_KINDS[kind] for kind in named)
    count = _need(text, "num_hidden_layers", where)
    return tuple(_kind(text, number) for number in range(count))


def _kind(text: Mapping[str, Any], number: int) -> str:
    """The kind of a layer that is said by a rule, as transformers' configuration classes do."""
    every = text.get("full_attention_interval")
    if every:  # Qwen3Next, Qwen3.5: the last of each group
        return FULL if (number + 1) % every == 0 else STATE
    if not text.get("sliding_window") or text.get("use_sliding_window") is False:
        return FULL
    if text.get("model_type") == "gpt_oss":  # configuration_gpt_oss.py: the first one slides
        return FULL if number % 2 else SLIDING
    pattern = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern")
    if pattern:  # Gemma: the last of each group sees everything
        return FULL if (number + 1) % pattern == 0 else SLIDING
    return SLIDING


def _state(text: Mapping[str, Any]) -> tuple[int, int]:
    """Elements of the convolution's and of the recurrent state of one layer and request.

    vLLM's mamba_utils.py (mamba2_state_shape, gated_delta_net_state_shape), and the same product
    in llama.cpp's llama-hparams.cpp (n_embd_r, n_embd_s).
    """
    if "mamba_num_heads" in text:
        inner = text["mamba_num_heads"] * text["mamba_head_dim"]
        size, kernel = text["ssm_state_size"], text.get("conv_kernel", 4)
        return (kernel - 1) * (inner + 2 * text["n_groups"] * size), inner * size
    if "linear_num_value_heads" in text:
        value = text["linear_num_value_heads"] * text["linear_value_head_dim"]
        key = text["linear_num_key_heads"] * text["linear_key_head_dim"]
        kernel = text.get("linear_conv_kernel_dim", 4)
        return (kernel - 1) * (value + 2 * key), value * text["linear_key_head_dim"]
    return 0, 0


def _experts(text: Mapping[str, Any]) -> Experts | None:
    names = ("num_local_experts", "n_routed_experts", "num_experts")
    total = next((text[name] for name in names if text.get(name)), 0)
    used = text.get("num_experts_per_tok") or text.get("experts_per_token") or 0
    return Experts(int(total), int(used)) if total and used else None
