"""Reads what a vLLM knows out of a wheel, a source archive or a directory; nothing of it runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sparkwright.engine_facts import EngineFacts, read_facts
from sparkwright.errors import SparkwrightError
from sparkwright.paths import FILES
from sparkwright.vllm_history import NAMES, ranges

PROGRAM = FILES / "opt/sparkwright/lib/introspect_vllm.py"
# The package's sources and the files that tell the version: nothing else is unpacked.
WANTED = re.compile(r"(?:[^/]+/)?(vllm/(?:[\w-]+/)*\w+\.py|PKG-INFO|vllm[\w.+-]*\.dist-info/\w+)")


def learn(path: Path) -> EngineFacts:
    """The facts of a wheel (.whl), a source archive (.tar.gz), or a directory with the package.

    Raises SparkwrightError when there is no vLLM in it, or it cannot be read.
    """
    if path.is_dir():
        return _read(path)
    with tempfile.TemporaryDirectory(prefix="sparkwright-learn-") as folder:
        try:
            unpack(path, Path(folder))
        except (OSError, zipfile.BadZipFile, tarfile.TarError) as error:
            raise SparkwrightError(
                f"{path}: {error}; give a wheel, a source archive or a directory"
            ) from error
        return _read(Path(folder))


def _read(folder: Path) -> EngineFacts:
    words = [sys.executable, str(PROGRAM), "--package", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  own program
    if done.returncode != 0:
        raise SparkwrightError(f"{done.stderr.strip() or 'introspection failed'}; is this vLLM?")
    return read_facts(done.stdout)


def unpack(archive: Path, folder: Path) -> None:
    """Write the wanted members of an archive below a directory.

    Raises OSError, BadZipFile or TarError when it cannot be read.
    """
    members = _from_wheel(archive) if archive.suffix == ".whl" else _from_source(archive)
    for name, data in members:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _from_wheel(archive: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            if found := WANTED.fullmatch(name):
                yield found[1], packed.read(name)


def _from_source(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as packed:
        for member in packed:
            found = WANTED.fullmatch(member.name)
            handle = packed.extractfile(member) if found and member.isfile() else None
            if found and handle:
                yield found[1], handle.read()


class Interned:
    """Numbers for things that many names share."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def number(self, thing: Any) -> int | None:
        """The thing's number; None stays None."""
        if thing is None:
            return None
        if thing not in self.items:
            self.items.append(thing)
        return self.items.index(thing)


def encode(known: Sequence[EngineFacts]) -> str:
    """The text of data/vllm-releases.json for releases, oldest first.

    A name has a state for each run of releases: [values, text, takes a value], by their numbers.
    """
    values, texts = Interned(), Interned()
    parts: dict[str, dict[str, dict[str, list[int]]]] = {"env": {}, "flags": {}}
    parts |= {kind: {} for kind in NAMES}
    for index, facts in enumerate(known):
        for kind, name, state in _states(facts, values, texts):
            places = parts[kind].setdefault(name, {})
            places.setdefault(json.dumps(state), []).append(index)
    lines = [f'"releases":{json.dumps([facts.version for facts in known])}']
    lines += [_block("values", values.items), _block("texts", texts.items)]
    for kind, names in parts.items():
        rows = [f"{json.dumps(name)}:{_where(names[name])}" for name in sorted(names)]
        lines.append(f'"{kind}":{{\n' + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _states(
    facts: EngineFacts, values: Interned, texts: Interned
) -> Iterator[tuple[str, str, Any]]:
    for name, choices in facts.env.items():
        text = texts.number(facts.deprecated.get(name))
        yield "env", name, [values.number(choices), text]
    for name, flag in facts.flags.items():
        text = texts.number(facts.deprecated.get(f"--{name}"))
        yield "flags", name, [values.number(flag.choices), text, flag.value]
    for kind in NAMES:
        for name in getattr(facts, kind):
            yield kind, name, 1


def _block(name: str, items: Iterable[Any]) -> str:
    return f'"{name}":[\n' + ",\n".join(json.dumps(item) for item in items) + "\n]"


def _where(states: dict[str, list[int]]) -> str:
    parts = []
    for state, indexes in states.items():
        runs = [f"{a}-{b}" if a != b else f"{a}" for a, b in ranges(indexes)]
        parts.append(f'"{",".join(runs)}":{state}')
    return "{" + ",".join(parts) + "}"
