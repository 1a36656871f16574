"""Whether a bundle's wheels are those of the lock, fit the machines, and are enough."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from sparkwright.bundle_wheels import pins_of, rank_of
from sparkwright.errors import SparkwrightError
from sparkwright.needs import Needs
from sparkwright.needs_parts import WheelSet
from sparkwright.needs_target import Target
from sparkwright.wheel_sets import find_uv


def wheel_problems(
    needs: Needs, known: Mapping[str, str], listed: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """(path, what is wrong, artifact) for each requirement that no wheel of the bundle meets.

    + known: sha256 -> file name in wheels/; listed: names that the manifest has there
    """
    for wheels in needs.sets:
        tags = needs.target.tags(wheels.python)
        for pin in pins_of(wheels, needs.target):
            hits = [known[sha] for sha in pin.hashes if sha in known]
            if any(rank_of(name, tags) is not None for name in hits):
                continue
            stem = f"{pin.project.replace('-', '_')}-{pin.version or ''}"
            names = sorted(n for n in {*known.values(), *listed} if n.lower().startswith(stem))
            there = [name for name in names if name in known.values()]
            path, what = f"wheels/{(there or names or [stem])[0]}", "is missing"
            if hits:
                path, what = f"wheels/{hits[0]}", f"does not fit {fits(needs.target, wheels)}"
            elif there:
                what = "has none of the locked hashes"
            yield path, what, f"artifacts/{wheels.artifact}"


def fits(target: Target, wheels: WheelSet) -> str:
    """For messages: what a wheel has to fit."""
    return f"Python {'.'.join(map(str, wheels.python))} on {target.platform}"


def foreign_wheel(name: str, needs: Needs) -> str:
    """Why a file in wheels/ is for no environment of the machines, or nothing."""
    try:
        tags = parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return "is no wheel"
    if any(rank_of(name, needs.target.tags(wheels.python)) is not None for wheels in needs.sets):
        return ""
    own = sorted({str(tag) for tag in tags})
    wanted = sorted({fits(needs.target, wheels) for wheels in needs.sets})
    more = f" and {len(own) - 1} more" if len(own) > 1 else ""
    return f"is for {own[0]}{more}; the machines want {' or '.join(wanted)}"


def unresolved(top: Path, needs: Needs) -> Iterator[tuple[str, str]]:
    """(artifact, uv's words) for each set that cannot be installed from the bundle alone."""
    for wheels in needs.sets:
        try:
            words = _dry_run(top, wheels, needs.target)
        except SparkwrightError as error:
            words = str(error)
        if words:
            yield f"artifacts/{wheels.artifact}", words


def _dry_run(top: Path, wheels: WheelSet, target: Target) -> str:
    """Resolve as the machine will, without an index; what uv says when it cannot."""
    lines = re.sub(r"(?m)^(\S+) @ \S+/([^/\s]+)", _pinned, wheels.text)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "wanted.txt").write_text(lines)
        argv = [
            *(find_uv(), "pip", "install", "--dry-run", "--offline", "--no-index", "--no-config"),
            *("--find-links", str((top / "wheels").absolute()), "--only-binary", ":all:"),
            *("--python-platform", target.platform, "--no-python-downloads"),
            *("--python-version", ".".join(map(str, wheels.python)), "--require-hashes"),
            *("--target", str(Path(folder, "target")), "--quiet", "-r", "wanted.txt"),
            *([] if wheels.closed else ["--no-deps"]),
        ]
        done = subprocess.run(  # noqa: S603 - uv, with words of ours
            argv, cwd=folder, capture_output=True, text=True, check=False
        )
    return " ".join(done.stderr.split())[-600:] if done.returncode else ""


def _pinned(match: re.Match[str]) -> str:
    """An address turned into the version that its file name has: the bundle is the index."""
    return f"{match[1]}=={parse_wheel_filename(unquote(match[2]))[1]}"
