"""Which build to judge against: a release, an environment, a profile, or one that was learned."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

from sparkwright.engine_facts import EngineFacts, read_facts
from sparkwright.errors import SparkwrightError
from sparkwright.lint.catalog import catalog
from sparkwright.paths import FILES

INTROSPECT: Final = FILES / "opt/sparkwright/lib/introspect_vllm.py"
REQUIREMENTS: Final = FILES / "opt/sparkwright/requirements"
PREFIX: Final = Path("/opt/sparkwright")  # of a machine that was converged
# vLLM 0.33.0 has 25 MB of Python; an archive that holds much more is none of it.
_MAX_BYTES: Final = 200 * 1024 * 1024


def for_version(text: str) -> EngineFacts:
    """`vllm==0.24.0`, `vllm 0.24.0` or `0.24.0`; a learned build of that version wins."""
    match = re.fullmatch(r"\s*(?:vllm\s*(?:==|@|\s)\s*)?v?(\d[\w.+!-]*)\s*", text)
    if match is None:
        raise SparkwrightError(f"--for {text}: is no version of vLLM; write vllm==0.33.0")
    stored = store() / f"{match[1]}.json"
    if stored.is_file():
        return read_facts(stored.read_text())
    found = catalog().facts(match[1])
    if found is None:
        raise SparkwrightError(
            f"--for {text}: that release was not learned; give its wheel to --learn"
        )
    return found


def of_venv(place: str) -> EngineFacts:
    """Facts of an installed vLLM, read from its files: a venv, site-packages or a python."""
    kept = Path(place) / ".introspect.json"
    if kept.is_file():
        return read_facts(kept.read_text())
    return read_facts(_printed([place]))


def of_profile(name: str, prefix: Path = PREFIX) -> EngineFacts:
    """Facts of a profile of vLLM: of this machine's venv, else of the release that it pins."""
    installed = prefix / "vllm" / name / ".introspect.json"
    if installed.is_file():
        return read_facts(installed.read_text())
    known = sorted(path.stem.removeprefix("vllm-") for path in REQUIREMENTS.glob("vllm-*.toml"))
    if name not in known:
        raise SparkwrightError(f"--profile {name}: no such profile; known: {', '.join(known)}")
    text = (REQUIREMENTS / f"vllm-{name}.toml").read_text()
    # A pin of the index, or the name of a wheel of vLLM's own release ("stock-0.17.1-vllm").
    pinned = re.search(r'"vllm==(\d+\.\d+\.\d+)"|-(?P<wheel>\d+\.\d+\.\d+)-vllm"', text)
    if pinned is None:
        raise SparkwrightError(
            f"--profile {name}: it follows nightly wheels, and none is installed here; "
            "name the wheel with --learn, or a venv with --venv"
        )
    return for_version(pinned[1] or pinned["wheel"])


def learn(path: str) -> EngineFacts:
    """Facts of a wheel or source archive, kept for later runs. Nothing of it is run."""
    with tempfile.TemporaryDirectory(prefix="sparkwright-lint-") as directory:
        try:
            _unpack(Path(path), Path(directory))
        except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
            raise SparkwrightError(f"--learn {path}: cannot be read ({error})") from error
        packages = sorted(Path(directory).glob("**/vllm/envs.py"))
        if not packages:
            raise SparkwrightError(
                f"--learn {path}: holds no vllm package; name its wheel or sdist"
            )
        printed = _printed(["--package", str(packages[0].parent)])
    found = read_facts(printed)
    store().mkdir(parents=True, exist_ok=True)
    (store() / f"{found.version}.json").write_text(printed)
    return found


def store() -> Path:
    """Where learned builds are kept (XDG base directories)."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    return Path(base) / "sparkwright" / "vllm"


def _unpack(archive: Path, directory: Path) -> None:
    """Python files and the version's file of an archive, nothing else."""
    left = _MAX_BYTES
    for name, size, file in _members(archive):
        path = PurePosixPath(name)
        wanted = path.suffix == ".py" or path.name in ("PKG-INFO", "METADATA", "RECORD")
        if not wanted or path.is_absolute() or ".." in path.parts:
            continue
        left -= size
        if left < 0:
            raise SparkwrightError(f"--learn {archive}: more than {_MAX_BYTES} bytes of Python")
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read(size))


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for item in wheel.infolist():
                with wheel.open(item) as file:
                    yield item.filename, item.file_size, file
        return
    with tarfile.open(archive) as sdist:
        for member in sdist:
            opened = sdist.extractfile(member) if member.isfile() else None
            if opened is not None:
                yield member.name, member.size, opened


def _printed(words: list[str]) -> str:
    argv = [sys.executable, "-E", "-s", str(INTROSPECT), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603 - our own program
    if done.returncode != 0:
        raise SparkwrightError(f"{words[-1]}: {done.stderr.strip()[-300:]}")
    return done.stdout


def config_of(path: str) -> dict[str, object]:
    """A model's config.json."""
    try:
        found = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise SparkwrightError(f"--model-config {path}: cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise SparkwrightError(f"--model-config {path}: is no map; name the model's config.json")
    return found
