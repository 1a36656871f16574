"""A library: a directory mounted on the machines (a NAS) that may hold weights already. Pure.

A bundle's tree can lie there, or plain `<repo>/<revision>` directories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sparkwright.errors import Problems
from sparkwright.resources import Spec, State

# A server that is gone holds who looks for minutes or for ever (nfs(5), hard): our choice.
WAIT_S: Final = 20


def places(data: Mapping[str, Any], repo: str, commit: str) -> tuple[str, ...]:
    """Directories of the library that may hold a snapshot; none without a library."""
    top = str(data.get("artifacts_library") or "")
    below = (f"hub/{repo}/resolve/{commit}", f"{repo}/{commit}", f"{repo}/{commit[:12]}")
    return tuple(f"{top}/{path}" for path in below) if top else ()


def in_place(data: Mapping[str, Any]) -> bool:
    """Do weights stay in the library?"""
    return bool(data.get("artifacts_library")) and not data.get("artifacts_library_copy")


def stamped(state: State) -> tuple[str, ...]:
    """Directories of the library that a weights directory's links lead to, as its stamp says.

    + state: the probe's answer to the stamp's path, with its text
    """
    try:
        return tuple(str(place) for place in json.loads(state.get("text", ""))["library"])
    except (ValueError, KeyError, TypeError):
        return ()


def probe(data: Mapping[str, Any]) -> Spec:
    """Is it there? Looking mounts what an automount has; a server that is gone holds nobody."""
    if not (top := str(data.get("artifacts_library") or "")):
        return {"kind": "path", "path": "/"}  # there is none to be opened
    look = ["sh", "-c", 'cd "$1" && ls -A | head -n 1', "sh", top]
    return {"kind": "run", "argv": ["timeout", "-k", "5", str(WAIT_S), *look]}


def check(data: Mapping[str, Any], answer: State, problems: Problems) -> None:
    """Why weights cannot be taken from there; nothing without a library."""
    top = str(data.get("artifacts_library") or "")
    hint = f"mount it (systemd.mount(5), fstab: try `findmnt {top}`), or remove artifacts/library"
    if not top or (answer.get("rc") == 0 and answer.get("out", "").strip()):
        return
    if answer.get("rc") == 0:
        problems.add(f"library {top}", "is an empty directory: nothing is mounted there", hint)
    elif answer.get("rc") in (124, 137):
        problems.add(f"library {top}", f"does not answer within {WAIT_S} s", "is its server on?")
    else:
        why = (answer.get("err") or answer.get("error") or "").strip().rsplit(": ", 1)[-1]
        problems.add(f"library {top}", f"cannot be opened ({why})", hint)
