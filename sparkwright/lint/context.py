"""What rules judge against: the builds, the model's config, and helpers to read a launch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

from sparkwright.engine_facts import EngineFacts
from sparkwright.lint.catalog import Catalog, catalog, llama
from sparkwright.lint.model import Engine, Launch, Word
from sparkwright.lint.options import Option, options_of

# The project's own images carry the release in their tag.
_IMAGE: Final = re.compile(r"(?:^|/)vllm/vllm-openai:v(\d+\.\d+\.\d+)")
# A digest does not say which release it is.
_STOCK_IMAGE: Final = re.compile(r"(?:^|/)(?:vllm/vllm-openai|ggml-org/llama\.cpp)(?::[^@]+)?$")


def version(text: str) -> tuple[int, ...]:
    """Numbers of a version; a development build counts as what came before it.

    0.24.0 is (0, 24, 0), 0.23.1rc1 is (0, 23), llama.cpp's b11312 is (11312,).
    """
    if built := re.search(r"build (\d+)", text):
        return (int(built[1]),)
    match = re.match(r"[vb]?(\d+)(?:\.(\d+))?(?:\.(\d+))?(rc|\.dev|a|b)?", text)
    if match is None:
        return (0,)
    numbers = tuple(int(part) for part in match.groups()[:3] if part is not None)
    return numbers[:-1] if match[4] else numbers


@dataclass(frozen=True)
class Build:
    """A build of an engine to judge against.

    + assumed: nobody named it: the newest release known here; messages say so
    """

    facts: EngineFacts
    assumed: bool = False

    @property
    def title(self) -> str:
        """For messages: "vllm 0.24.0 (stock)"."""
        if self.assumed:
            return f"{self.facts.engine} {self.facts.version} (the newest known here)"
        return self.facts.title

    @cached_property
    def version(self) -> tuple[int, ...]:
        """(0, 24, 0); a development build counts as the release before it: 0.23.1rc1 is (0, 23)."""
        return version(self.facts.version)

    @property
    def stock(self) -> bool:
        """Upstream's own code, nightly builds (E) included; not the forks T and C."""
        return self.facts.build in ("stock", "E", "llama.cpp")


class _Read(NamedTuple):
    launch: Launch  # kept, so that its id stays its own
    build: Build | None
    options: tuple[Option, ...]
    named: dict[str, list[Option]]


@dataclass(frozen=True)
class Context:
    """Everything outside of the files that a verdict may depend on.

    + config: the model's config.json, None when it is not at hand
    + gpus: GPUs of one machine; a Spark has one
    + told: the user named vLLM's build; else an image's tag may, else the newest release counts
    + own: the files are of our own making: what is only a warning for others' files is an error
    """

    vllm: Build
    llama: Build
    config: Mapping[str, object] | None = None
    gpus: int = 1
    own: bool = False
    told: bool = False
    catalog: Catalog = field(default_factory=catalog)
    _kept: dict[int, _Read] = field(default_factory=dict, compare=False, repr=False)

    def build(self, launch: Launch) -> Build | None:
        """The build that would run this launch; None for engines that we have no facts of."""
        return self._read(launch).build

    def _build(self, launch: Launch) -> Build | None:
        if launch.engine is Engine.VLLM and any(word.text == "--omni" for word in launch.argv):
            return None  # vllm-omni: a program of its own with more flags
        if launch.engine is Engine.VLLM and not self.told:
            found = _IMAGE.search(launch.image.shape) if launch.image else None
            facts = self.catalog.facts(found[1]) if found else None
            if facts is not None:
                return Build(facts)
        return {Engine.VLLM: self.vllm, Engine.LLAMA: self.llama}.get(launch.engine)

    def certain(self, launch: Launch) -> bool:
        """Whether the launch runs the build that it is judged against.

        Other people's images hold builds of their own, whose facts are not known here.
        """
        if self.told or launch.image is None:
            return True
        return _STOCK_IMAGE.search(launch.image.shape) is not None

    def options(self, launch: Launch) -> tuple[Option, ...]:
        """The options of a launch in order, long names, `_` as `-`, each with its value."""
        return self._read(launch).options

    def _read(self, launch: Launch) -> _Read:
        """What is known of a launch, made once: every rule asks for it."""
        found = self._kept.get(id(launch))
        if found is None:
            build = self._build(launch)
            options = options_of(launch, build.facts if build else None)
            found = self._kept[id(launch)] = _Read(launch, build, options, {})
            for option in options:
                found.named.setdefault(option.name, []).append(option)
        return found

    def option(self, launch: Launch, *names: str) -> Option | None:
        """The option that counts (the last one written) of these long names."""
        read = self._read(launch)
        found = [option for name in names for option in read.named.get(name, ())]
        if len(names) > 1 and len(found) > 1:
            found = [option for option in read.options if option.name in names]
        if len(found) > 1 and any(option.spelled.maybe for option in found):
            # Which branch of the script is taken is not known, so the value is not either.
            return replace(found[-1], value=None)
        return found[-1] if found else None

    def number(self, launch: Launch, *names: str) -> float | None:
        """That option's value as a number; None when absent, unknown or no number."""
        option = self.option(launch, *names)
        text = option.value.text if option and option.value else None
        match = re.fullmatch(r"([0-9]*\.?[0-9]+)([kKmMgG]?)i?B?", text or "")
        if match is None:
            return None
        # vLLM reads 1k as 1000 and 1K as 1024 (vllm/engine/arg_utils.py, human_readable_int).
        scale = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "K": 2**10, "M": 2**20, "G": 2**30}
        return float(match[1]) * scale[match[2]]

    def open_ended(self, launch: Launch) -> bool:
        """Whether a variable may add options: then nothing can be called missing."""
        return any(word.many for word in launch.argv) or self.option(launch, "config") is not None

    def context_limit(self) -> float | None:
        """The longest context of the model's config, scaled positions included."""
        config = self.config or {}
        text = config.get("text_config")
        inner = text if isinstance(text, Mapping) else config
        value = inner.get("max_position_embeddings", config.get("max_position_embeddings"))
        return float(value) if isinstance(value, int | float) else None

    def model(self, launch: Launch) -> Word | None:
        """The model's path or repository as the launch names it; None when it names none."""
        option = self.option(launch, *_MODEL_FLAGS.get(launch.engine, ()))
        if option is not None and option.value is not None:
            return option.value
        return model_word(launch, self.options(launch))


_MODEL_FLAGS = {
    Engine.VLLM: ("model",),
    Engine.LLAMA: ("model", "hf-repo", "model-url"),
    Engine.SGLANG: ("model-path", "model"),
}


def model_word(launch: Launch, options: tuple[Option, ...]) -> Word | None:
    """The positional model of `vllm serve`."""
    if launch.engine not in (Engine.VLLM, Engine.TRTLLM):
        return None
    used = {id(word) for option in options for word in option.words}
    free = [word for word in launch.argv[1:] if id(word) not in used]
    if free and free[0].text == "serve":
        free = free[1:]
    return free[0] if free and not free[0].many else None


def is_gpt_oss(launch: Launch, ctx: Context) -> bool:
    """Whether the model speaks harmony: by its config, else by its name."""
    if ctx.config is not None and "model_type" in ctx.config:
        return ctx.config["model_type"] == "gpt_oss"
    named = [ctx.model(launch)]
    served = ctx.option(launch, "served-model-name", "alias")
    named.append(served.value if served else None)
    return any("gpt-oss" in word.shape.lower() for word in named if word is not None)


def newest() -> Context:
    """A context with nothing told: the newest release known here."""
    return Context(Build(catalog().newest, assumed=True), Build(llama(), assumed=True))
