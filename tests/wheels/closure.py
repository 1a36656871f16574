"""Is a set of wheels closed? What `uv pip check` says, for a platform that is not this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from email.parser import Parser

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# PEP 508's variables on a DGX Spark: Ubuntu 24.04, its Python 3.12.
SPARK: Mapping[str, str] = {
    "implementation_name": "cpython",
    "implementation_version": "3.12.3",
    "os_name": "posix",
    "platform_machine": "aarch64",
    "platform_python_implementation": "CPython",
    "platform_release": "6.11.0",
    "platform_system": "Linux",
    "platform_version": "#16-Ubuntu",
    "python_full_version": "3.12.3",
    "python_version": "3.12",
    "sys_platform": "linux",
}


def wants(metadata: str, extras: Iterable[str]) -> list[Requirement]:
    """What a wheel needs on a Spark, with these of its extras."""
    found = Parser().parsestr(metadata, headersonly=True)
    asked = [Requirement(str(text)) for text in found.get_all("Requires-Dist", [])]
    names = ["", *extras]

    def holds(item: Requirement) -> bool:
        marker = item.marker
        return marker is None or any(marker.evaluate({**SPARK, "extra": n}) for n in names)

    return [item for item in asked if holds(item)]


def problems(
    roots: Iterable[str], versions: Mapping[str, str], metadata: Callable[[str], str]
) -> tuple[list[str], set[str]]:
    """(what is missing or of a wrong version, the distributions that were reached)

    + roots: requirements that the set is for
    + versions: distribution -> version
    + metadata: METADATA of a distribution's wheel
    """
    wrong: list[str] = []
    reached: dict[str, set[str]] = {}
    queue = [("the set", Requirement(text)) for text in roots]
    while queue:
        who, item = queue.pop()
        name = canonicalize_name(item.name)
        have = versions.get(name)
        if have is None:
            wrong.append(f"{who} requires {item}, which is not in the set")
            continue
        if not item.specifier.contains(have, prereleases=True):
            wrong.append(f"{who} requires {item}, the set has {name} {have}")
        new = {*item.extras} - reached.get(name, set())
        if name in reached and not new:
            continue
        reached.setdefault(name, set()).update(new)
        queue += [(name, more) for more in wants(metadata(name), reached[name])]
    return wrong, {*reached}
