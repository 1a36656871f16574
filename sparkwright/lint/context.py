"""What rules judge against: the builds, the model's config, and helpers to read a launch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sparkwright.engine_facts import EngineFacts
from sparkwright.lint.model import Engine, Launch, Word
from sparkwright.lint.options import Option, options_of


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
        return self.facts.title + (", the newest known here" if self.assumed else "")

    @cached_property
    def version(self) -> tuple[int, ...]:
        """(0, 24, 0); a development build counts as the release before it: 0.23.1rc1 is (0, 23)."""
        match = re.match(r"[vb]?(\d+)(?:\.(\d+))?(?:\.(\d+))?(rc|\.dev|a|b)?", self.facts.version)
        if match is None:
            return (0,)
        numbers = tuple(int(text) for text in match.groups()[:3] if text is not None)
        return numbers[:-1] if match[4] else numbers

    @property
    def stock(self) -> bool:
        """Upstream's own code, nightly builds (E) included; not the forks T and C."""
        return self.facts.build in ("stock", "E", "llama.cpp")


@dataclass(frozen=True)
class Context:
    """Everything outside of the files that a verdict may depend on.

    + config: the model's config.json, None when it is not at hand
    + gpus: GPUs of one machine; a Spark has one
    + machines: of the tensor-parallel group; 1 unless told
    + own: the files are of our own making: what is only a warning for others' files is an error
    """

    vllm: Build
    llama: Build
    config: Mapping[str, object] | None = None
    gpus: int = 1
    own: bool = False
    _options: dict[int, tuple[Launch, tuple[Option, ...]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def build(self, launch: Launch) -> Build | None:
        """The build that would run this launch; None for engines that we have no facts of."""
        return {Engine.VLLM: self.vllm, Engine.LLAMA: self.llama}.get(launch.engine)

    def options(self, launch: Launch) -> tuple[Option, ...]:
        """The options of a launch in order, long names, `_` as `-`, each with its value."""
        kept = self._options.get(id(launch))
        if kept is None:
            build = self.build(launch)
            kept = (launch, options_of(launch, build.facts if build else None))
            self._options[id(launch)] = kept
        return kept[1]

    def option(self, launch: Launch, *names: str) -> Option | None:
        """The option that counts (the last one written) of these long names."""
        found = [option for option in self.options(launch) if option.name in names]
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
    return any("gpt-oss" in (word.text or "").lower() for word in named if word is not None)
