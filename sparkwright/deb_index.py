"""Debian's package lists as data: paragraphs, versions in order, and what a set still wants. Pure.

deb822(5) for the text, deb-version(7) for the order, deb-control(5) for the relations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Paragraph = Mapping[str, str]

# What apt needs of a package to install it, in the order of a Packages file; Url is ours.
KEPT: Final = (
    "Package", "Version", "Architecture", "Multi-Arch", "Essential", "Priority", "Section",
    "Installed-Size", "Pre-Depends", "Depends", "Provides", "Conflicts", "Breaks", "Replaces",
    "Filename", "Size", "SHA256", "Url",
)  # fmt: skip
# What of a status file is needed to tell what is installed and what that wants.
STATUS: Final = (
    "Package", "Status", "Priority", "Essential", "Multi-Arch", "Architecture", "Version",
    "Pre-Depends", "Depends", "Provides", "Conflicts", "Breaks", "Replaces",
)  # fmt: skip
_RELATION: Final = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9+.-]*)(?::[a-z0-9-]+)?(?:\s*\((?P<how><<|<=|=|>=|>>)\s*(?P<version>\S+?)\))?"
)


@dataclass(frozen=True)
class Deb:
    """One package file.

    + file: its name in a flat repository; url: where upstream has it; size in bytes
    """

    package: str
    version: str
    arch: str
    file: str
    size: int
    sha256: str
    url: str
    fields: Paragraph


def parse(text: str) -> list[dict[str, str]]:
    """The paragraphs of a deb822 text; continued lines are joined with blanks."""
    found = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        fields: dict[str, str] = {}
        last = ""
        for line in part.splitlines():
            if line[:1] in (" ", "\t"):
                fields[last] = f"{fields.get(last, '')} {line.strip()}".strip()
            elif ":" in line and not line.startswith("#"):
                last, value = line.split(":", 1)
                fields[last] = value.strip()
        if fields:
            found.append(fields)
    return found


def render(paragraphs: Iterable[Paragraph], keys: Sequence[str]) -> str:
    """Paragraphs with these fields only, in this order; an empty field is left out.

    A blank line ends the last one, too: without it apt 2.6 says "Internal parsing error" of it.
    """
    texts = ("".join(f"{k}: {p[k]}\n" for k in keys if p.get(k)) for p in paragraphs)
    return "".join(f"{text}\n" for text in texts)


def debs_of(listing: str) -> list[Deb]:
    """The packages of a locked listing, sorted by name. Raises ValueError, KeyError."""
    found = [
        Deb(
            p["Package"], p["Version"], p["Architecture"],
            # Not as upstream's pool names it: some carry the epoch as %3a, which is quoted again.
            f"{p['Package']}_{p['Version'].split(':')[-1]}_{p['Architecture']}.deb",
            int(p["Size"]), p["SHA256"], p["Url"], p,
        )
        for p in parse(listing)
    ]  # fmt: skip
    return sorted(found, key=lambda deb: (deb.package, deb.version, deb.arch))


def _order(char: str) -> int:
    if char == "~":
        return -1
    return ord(char) if char.isalpha() else ord(char) + 256


def _part(text: str) -> list[tuple[tuple[int, ...], int]]:
    pairs = re.findall(r"([^0-9]*)([0-9]*)", text)
    return [((*map(_order, word), 0), int(number or 0)) for word, number in pairs]


def version_key(version: str) -> Any:
    """A value that sorts as dpkg sorts versions."""
    epoch, _, rest = version.rpartition(":")
    upstream, dash, revision = rest.rpartition("-")
    return int(epoch or 0), _part(upstream if dash else rest), _part(revision if dash else "0")


def _fits(have: str, how: str, version: str) -> bool:
    one, two = version_key(have), version_key(version)
    return bool(
        {"<<": one < two, "<=": one <= two, "=": one == two, ">=": one >= two, ">>": one > two}[how]
    )


def installed(status: str) -> list[dict[str, str]]:
    """The installed packages of a dpkg status file."""
    return [p for p in parse(status) if p.get("Status", "").split()[-1:] == ["installed"]]


def common(statuses: Sequence[str]) -> list[dict[str, str]]:
    """What several machines all have; of different versions the oldest, which promises least."""
    each = [
        {(p["Package"], p.get("Architecture", "")): p for p in installed(text)} for text in statuses
    ]
    names = set(each[0]).intersection(*each[1:]) if each else set()
    return [
        min((have[name] for have in each), key=lambda p: version_key(p["Version"]))
        for name in sorted(names)
    ]


class _Provided:
    """Which names with which versions a set of packages offers."""

    def __init__(self, paragraphs: Iterable[Paragraph]) -> None:
        self._versions: dict[str, list[str | None]] = {}
        for p in paragraphs:
            self._versions.setdefault(p["Package"], []).append(p["Version"])
            for relation in _RELATION.finditer(p.get("Provides", "")):
                self._versions.setdefault(relation["name"], []).append(relation["version"])

    def has(self, alternative: str) -> bool:
        match = _RELATION.fullmatch(alternative.strip())
        if match is None:
            return False
        versions = self._versions.get(match["name"], [])
        if not match["how"]:
            return bool(versions)
        return any(v is not None and _fits(v, match["how"], match["version"]) for v in versions)


def unmet(set_of: Iterable[Paragraph], have: Iterable[Paragraph]) -> list[str]:
    """What packages want and neither the set nor the machine has, a phrase each.

    Dependencies alone are judged: not Conflicts and Breaks, and no choice between alternatives.
    """
    wanted = list(set_of)
    offered = _Provided([*wanted, *have])
    lines = []
    for p in wanted:
        relations = f"{p.get('Pre-Depends', '')},{p.get('Depends', '')}".split(",")
        for relation in filter(None, (text.strip() for text in relations)):
            if not any(offered.has(text) for text in relation.split("|")):
                lines.append(f"{p['Package']} {p['Version']} wants {relation}")
    return sorted(set(lines))


def missing(
    words: Iterable[str], set_of: Iterable[Paragraph], have: Iterable[Paragraph]
) -> list[str]:
    """Wanted packages (name, or name=version) that are in neither."""
    offered = _Provided([*set_of, *have])
    found = []
    for word in words:
        name, _, version = word.partition("=")
        if not offered.has(f"{name} (= {version})" if version else name):
            found.append(word)
    return found
