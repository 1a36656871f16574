"""The vocabulary of gpt-oss's harmony format: which vLLM wants a file for it, and why."""

from __future__ import annotations

from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.model import Assignment, Launch

HARMONY: Final = ("TIKTOKEN_ENCODINGS_BASE", "TIKTOKEN_RS_CACHE_DIR")
# Read by the Python package tiktoken (tiktoken/load.py).
_PYTHON: Final = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
# The first release on oss-harmony, which has the vocabularies embedded (requirements/common.txt).
_EMBEDDED: Final = (0, 31)
_ON: Final = frozenset(("1", "on", "yes", "true"))


def vocabulary_inside(launch: Launch, ctx: Context) -> bool | None:
    """Whether that vLLM needs no seed; None when its release is not known for certain."""
    build = ctx.build(launch)
    if build is None or build.assumed or not ctx.certain(launch):
        return None
    return build.version >= _EMBEDDED


def needs_seed(launch: Launch) -> tuple[Assignment | None, str]:
    """The variable for which a launch cannot fetch the vocabulary, and why; None when it can."""
    for name in (*_PYTHON, "TIKTOKEN_OFFLINE"):
        item = launch.get(name)
        if item is not None:
            return item, f"harmony (Rust) does not read {name}: it has no vocabulary"
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        item = launch.get(name)
        if item is not None and (item.value or "").lower() in _ON:
            return item, "offline, and harmony has no vocabulary: it goes to the network for one"
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        item = launch.get(name)
        if item is not None and item.value:
            return item, "behind a proxy harmony's download may fail: it ignores the system's CAs"
    return None, ""
