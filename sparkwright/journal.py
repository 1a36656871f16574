"""A service's log, cut down to what explains a failed start. Pure."""

from __future__ import annotations

import re

LOOK_BACK = 600  # lines: a failed start of vLLM writes about 300 (measured, 0.32.0)
LAST = 25
CAUSES = 6
# What programs say when the reason is near: Python's exceptions, the loader, CUDA, the kernel.
_CAUSE = re.compile(
    # Not `[A-Za-z]+Error`: each place of a very long word would be tried, and each time to its end.
    r"(?<=[A-Za-z])(Error|Exception)\b|error while loading|cannot open shared object|CUDA error|"
    r"[Nn]o space left on device|Disk quota exceeded|"
    r"[Oo]ut of memory|illegal instruction|Permission denied|^error:|: error:"
)
# vLLM's "(EngineCore pid=12) ERROR 11-29 20:46:37 [core.py:953] " before each line of a traceback.
_PREFIX = re.compile(r"^(\([^)]*\) )?(ERROR|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\] ?")


def causes(log: str) -> list[str]:
    """The first lines that name a reason, each text once.

    A traceback's end repeats what went wrong at its top: with several processes the first reason
    stands far above the last line, which says only that something failed.
    """
    found: dict[str, None] = {}
    for line in log.splitlines():
        text = bare(line)
        if _CAUSE.search(text) and not text.startswith(("raise ", "except ", "File ")):
            found.setdefault(text)
    return list(found)[:CAUSES]


def bare(line: str) -> str:
    """A line of a log as it is shown: without what stands before each line, and not too long."""
    return _PREFIX.sub("", line).strip()[:300]


def shown(log: str) -> str:
    """What a failure message shows of a log: reasons found above its end, then the end."""
    lines = log.splitlines()
    end = lines[-LAST:]
    above = [text for text in causes(log) if not any(text in line for line in end)]
    return "\n".join([*(["what it said before:", *above, "its end:"] if above else []), *end])
