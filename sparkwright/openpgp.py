"""pysequoia for code that runs in greenlets, as a converge does."""

from __future__ import annotations

import os
from types import ModuleType


def sequoia() -> ModuleType:
    """pysequoia, told to keep no backtraces of its errors.

    Where a user has RUST_BACKTRACE=1, its library walks up the stack for an error that it then
    handles itself, and a greenlet's stack has no end that it could find: a converge from a mirror
    ended with SIGSEGV and without a word (seen in the lab; std::backtrace documents the variable).
    """
    os.environ["RUST_LIB_BACKTRACE"] = "0"
    import pysequoia  # only now: without an air gap nobody waits for it

    return pysequoia
