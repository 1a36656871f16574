"""Judges answers and log: what is wrong, the likely cause, and the command that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Wrong = tuple[str, str]

CAUSES = {
    "null": "the final channel never began: raise acceptance.max_tokens, or the build computes "
    "wrong first tokens (vllm#37030)",
    "wrong": "the model answers, but not this: wrong weights, wrong chat template or a broken "
    "kernel (llama.cpp without 121a, vLLM Marlin below 0.23 on SM121)",
    "log": "another backend runs than the recipe wants: look at the build's flags and the driver",
    "http": "the server does not answer as an OpenAI-compatible API: look at its journal",
    "unknown": "the unit was changed by hand or by a drop-in, or this build was installed by hand",
    "engine": "vLLM's engine process ended while its API went on: the first error above says why",
    "system": "the system message does not arrive as one: vLLM below 0.23 gives gpt-oss a second "
    "system block in place of a developer message (vllm#33210), or the chat template drops it",
    "loop": "a broken kernel or number format for the KV cache, or another end-of-text token than "
    "the model was trained with",
    "driver": "the GPU's driver failed (dgx-spark-playbooks#97): lower gpu-memory-utilization, "
    "take allocator options out of env, then reboot",
    "web": "the page is another one, or its server has not made its database yet",
}
_JOURNAL = "journalctl -u {unit}"
_KERNELS = f"{_JOURNAL} | grep -iE 'backend|mxfp4|using device|archs'"
SEE = {
    "null": _KERNELS,
    "wrong": _KERNELS,
    "log": _KERNELS,
    "loop": _KERNELS,
    "http": f"{_JOURNAL} -n 100",
    "web": f"{_JOURNAL} -n 100",
    "unknown": "systemctl cat {unit}",
    "engine": f"{_JOURNAL} | grep -m1 -A30 ERROR",
    "system": f"{_JOURNAL} | grep -iE 'version|chat template'",
    "driver": "journalctl -k | grep -E 'NVRM|Xid'",
}
# Lines that tell of something else than of a backend; the words stand in the patterns as well.
OTHER = {"EngineCore": "engine", "EngineDeadError": "engine", "environment variable": "unknown"}

# A loop is a phrase that the end of the text repeats, as vLLM's own repetition_detection defines it
# (vllm/v1/core/sched/utils.py). The numbers are ours: a refrain or the rows of a table stay below.
LOOP_TIMES = 4
LOOP_CHARS = 200
PHRASE_CHARS = 400


def loop(text: str) -> str | None:
    """The phrase that a text repeats to its end: 4 times or more, over 200 characters or more."""
    end = text.rstrip()
    for size in range(1, PHRASE_CHARS + 1):
        times = max(LOOP_TIMES, -(-LOOP_CHARS // size))
        if len(end) >= size * times and end.endswith(end[-size:] * times):
            return end[-size:].strip()[:60]
    return None


def answer(spec: dict[str, Any], found: dict[str, Any]) -> Iterator[Wrong]:
    """What is wrong with the answer to the question."""
    yield from _text(spec, found, spec["expect"], "wrong", "")


def system(spec: dict[str, Any], found: dict[str, Any]) -> Iterator[Wrong]:
    """What is wrong with the answer under a system message."""
    label = f"under the system message {spec['system'][:60]!r}: "
    yield from _text(spec, found, spec["system_expect"], "system", label)


def long(spec: dict[str, Any], found: dict[str, Any]) -> Iterator[Wrong]:
    """What is wrong with the long answer: empty, without an end, or a loop."""
    for part in ("content", "reasoning"):
        if phrase := loop(found[part] or ""):
            yield "loop", f"long answer: its {part} repeats {phrase!r} to its end"
            return
    yield from _text(spec, found, "", "loop", "long answer: ")


def _text(
    spec: dict[str, Any], found: dict[str, Any], expect: str, key: str, label: str
) -> Iterator[Wrong]:
    """
    + key: cause when a text is there, but the wrong one
    + label: said before each phrase
    """
    if not found["content"]:
        thoughts = f"{len(found['reasoning'])} characters of reasoning"
        yield "null", f"{label}content is {found['content']!r} after {thoughts}"
    elif expect not in found["content"]:
        yield key, f"{label}content {found['content'][:200]!r} lacks {expect!r}"
    if found["finish_reason"] != spec["finish_reason"]:
        cut = "null" if found["finish_reason"] == "length" and key != "loop" else key
        what = f"finish_reason is {found['finish_reason']}, not {spec['finish_reason']}"
        yield cut, f"{label}{what}"


def start_page(spec: dict[str, Any], found: dict[str, Any]) -> Iterator[Wrong]:
    """What is wrong with a page for people."""
    if spec["expect"] not in found["content"]:
        yield "web", f"the start page {found['content'][:200]!r} lacks {spec['expect']!r}"


def unsaid(spec: dict[str, Any], text: str) -> Iterator[Wrong]:
    """What the journal should say and does not."""
    for pattern in spec["log_must"]:
        if not re.search(pattern, text, re.M):
            yield "log", f"the journal since this start has no line like {pattern!r}"


def said(spec: dict[str, Any], text: str) -> Iterator[Wrong]:
    """What the journal says and should not."""
    for pattern in spec["log_must_not"]:
        if hit := re.search(pattern, text, re.M):
            line = text[text.rfind("\n", 0, hit.start()) + 1 :].splitlines()[0]
            key = next((k for word, k in OTHER.items() if word in pattern), "log")
            yield key, f"the journal says {line.strip()[:200]!r}"


def sentence(spec: dict[str, Any], wrong: Wrong, kernels: list[str]) -> str:
    """One failure as people read it.

    + kernels: what the engine says of them, where they may be the cause
    """
    key, what = wrong
    cause = [CAUSES[key]]
    if SEE[key] == _KERNELS:
        cause += spec["notes"]
        cause += [f"it runs: {'; '.join(kernels)}"] if kernels else []
    return f"{what}; likely cause: {'. '.join(cause)}; see {SEE[key].format(unit=spec['unit'])}"
