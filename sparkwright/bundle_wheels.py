"""Which wheels a requirements file means on a kind of machine, where they are, and their index."""

from __future__ import annotations

import html
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from sparkwright.errors import Problem, Problems, SparkwrightError
from sparkwright.needs_parts import WheelSet
from sparkwright.needs_target import Target
from sparkwright.wheel_sets import find_uv

HASH: Final = re.compile(r"\s--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One requirement that holds on the machine; url: where it is, when no index is asked."""

    project: str
    version: str | None
    url: str | None
    hashes: frozenset[str]


@dataclass(frozen=True)
class Wheel:
    """One wheel file; size in bytes, None when nobody said it."""

    file: str
    project: str
    url: str
    size: int | None
    sha256: str
    artifact: str


def pins_of(wheels: WheelSet, target: Target) -> list[Pin]:
    """The requirements of a set whose markers hold on the target. Raises SparkwrightError."""
    text = re.sub(r"\\\s*\n", " ", wheels.text)
    found = []
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        plain = re.split(r"\s+(?=--hash)", line, maxsplit=1)[0]
        hashes = frozenset(HASH.findall(line))
        try:
            wanted = Requirement(plain)
        except InvalidRequirement as error:
            raise _error(wheels, f'cannot read "{plain}" ({error})', "make it again") from error
        if not hashes:
            raise _error(wheels, f"{wanted.name} has no sha256", "make it again with hashes")
        if wanted.marker is None or wanted.marker.evaluate(target.markers(wheels.python)):
            exact = [item.version for item in wanted.specifier if item.operator == "=="]
            version = exact[0] if len(exact) == 1 else None
            name = str(canonicalize_name(wanted.name))
            found.append(Pin(name, version, wanted.url, hashes))
    return found


def locate(sets: Iterable[WheelSet], target: Target, problems: Problems) -> list[Wheel]:
    """The wheel files of all sets, each once; asks the package index through uv."""
    found: dict[str, Wheel] = {}
    for wheels in sets:
        try:
            for wheel in _of_set(wheels, target):
                other = found.setdefault(wheel.file, wheel)
                if other.sha256 != wheel.sha256:
                    raise _error(wheels, f"{wheel.file} is another file than that of "
                                 f"{other.artifact}", "resolve both sets anew")  # fmt: skip
        except SparkwrightError as error:
            where, _, what = str(error).partition(": ")
            problems.add(where, what)
    return [found[name] for name in sorted(found)]


def _of_set(wheels: WheelSet, target: Target) -> list[Wheel]:
    pins = pins_of(wheels, target)
    found = [_direct(pin, wheels) for pin in pins if pin.url]
    indexed = [pin for pin in pins if not pin.url]
    offers = _ask(wheels, target) if indexed else {}
    tags = target.tags(wheels.python)
    return found + [_choose(pin, offers.get(pin.project, ()), tags, wheels) for pin in indexed]


def _direct(pin: Pin, wheels: WheelSet) -> Wheel:
    (sha256,) = list(pin.hashes)[:1]
    url = str(pin.url)
    name = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    return Wheel(name, pin.project, url, wheels.sizes.get(sha256), sha256, wheels.artifact)


def _ask(wheels: WheelSet, target: Target) -> dict[str, list[dict[str, Any]]]:
    """Project -> the wheels that the index offers for its pinned version. Raises SparkwrightError.

    Markers are judged for the target, not for this computer (pip#4304).
    """
    version = ".".join(map(str, wheels.python))
    lines = [line for line in wheels.text.splitlines() if not re.match(r"\S+ @ ", line)]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "wanted.txt").write_text("\n".join(lines) + "\n")
        argv = [
            *(find_uv(), "pip", "compile", "wanted.txt", "--no-deps", "--only-binary", ":all:"),
            *("--python-platform", target.platform, "--python-version", version),
            *("--format", "pylock.toml", "-o", "pylock.toml", "--no-header", "--quiet"),
            "--no-python-downloads",
        ]
        done = subprocess.run(  # noqa: S603 - uv, with words of ours
            argv, cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            told = " ".join(done.stderr.split())[-600:]
            raise _error(wheels, f"uv cannot find its wheels: {told}", "check the index")
        locked = tomllib.loads(Path(folder, "pylock.toml").read_text())
    return {
        str(canonicalize_name(p["name"])): list(p.get("wheels", ())) for p in locked["packages"]
    }


def _choose(
    pin: Pin, offers: Iterable[Mapping[str, Any]], tags: Mapping[Tag, int], wheels: WheelSet
) -> Wheel:
    """The best of the wheels whose hash is locked."""
    ranked = []
    for offer in offers:
        name = str(offer.get("name") or unquote(urlsplit(offer["url"]).path.rsplit("/", 1)[-1]))
        rank = rank_of(name, tags)
        if offer["hashes"].get("sha256") in pin.hashes and rank is not None:
            ranked.append((rank, name, offer))
    if not ranked:
        what = (
            f"{pin.project} {pin.version}: the index has no wheel of a locked hash for the target"
        )
        raise _error(wheels, what, "resolve it anew, or wait until the index has it again")
    _, name, offer = min(ranked, key=lambda row: row[:2])
    size = int(offer["size"]) if offer.get("size") else None
    return Wheel(name, pin.project, str(offer["url"]), size, str(offer["hashes"]["sha256"]),
                 wheels.artifact)  # fmt: skip


def rank_of(name: str, tags: Mapping[Tag, int]) -> int | None:
    """How well a wheel fits, 0 best; None when it does not."""
    try:
        own = parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return None
    return min((tags[tag] for tag in own if tag in tags), default=None)


def index_pages(wheels: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Path below simple/ -> page (PEP 503) with relative links, for (file, sha256) of wheels."""
    projects: dict[str, list[str]] = {}
    for file, sha256 in sorted(wheels):
        project = str(parse_wheel_filename(file)[0])
        link = f"../../wheels/{quote(file)}#sha256={sha256}"
        projects.setdefault(project, []).append(f'<a href="{link}">{html.escape(file)}</a><br>')
    pages = {f"{name}/index.html": _page(name, links) for name, links in projects.items()}
    names = [f'<a href="{name}/">{name}</a><br>' for name in sorted(projects)]
    return {"index.html": _page("Simple index", names), **pages}


def _page(title: str, lines: Sequence[str]) -> str:
    head = f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{title}</title></head><body>'
    return "\n".join([head, *lines, "</body></html>"]) + "\n"


def _error(wheels: WheelSet, what: str, hint: str) -> SparkwrightError:
    return SparkwrightError(str(Problem(f"artifacts/{wheels.artifact}", what, hint)))
