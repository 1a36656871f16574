"""A closed set of wheels for a Spark, resolved by uv and written with one hash for each wheel.

What is asked for is in uv's own project format, beside the requirements file: vllm-stock.toml
gives vllm-stock.txt. The same inputs give the same text: `exclude-newer` fixes what the index had.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from sparkwright.artifacts import Artifact
from sparkwright.errors import Problem, SparkwrightError
from sparkwright.vllm_profiles import wheel_line
from sparkwright.wheel_index import GLIBC, PLATFORM, WheelFile, best

MINOR: Final = "3.12"  # PYTHON of wheel_index.py
OPTIONS: Final = (
    *("--format", "pylock.toml", "--python-platform", PLATFORM, "--python-version", MINOR),
    *("--only-binary", ":all:", "--no-python-downloads", "--no-header", "--quiet"),
)


@dataclass(frozen=True)
class Chosen:
    """One wheel of a set.

    + size: bytes; None when the index does not say
    + indexed: the default index has it, so its address is not written
    """

    project: str
    version: str
    file: WheelFile
    size: int | None
    sha256: str
    indexed: bool

    @property
    def line(self) -> str:
        """Its line in a requirements file."""
        plain = self.file.url.split("#", maxsplit=1)[0]
        wanted = f"{self.project}=={self.version}" if self.indexed else f"{self.project} @ {plain}"
        return f"{wanted} --hash=sha256:{self.sha256}"


def find_uv() -> str:
    """uv beside this Python, or on PATH. Raises SparkwrightError."""
    own = Path(sys.executable).with_name("uv")
    found = str(own) if own.exists() else shutil.which("uv")
    if found is None:
        hint = "install it beside sparkwright: python3 -m pip install uv"
        raise SparkwrightError(str(Problem("uv", "is not installed, and it resolves wheels", hint)))
    return found


def inputs_of(path: Path) -> dict[str, Any]:
    """What a set is resolved from; `path` is the .toml. Raises SparkwrightError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SparkwrightError(str(Problem(path.name, str(error), "restore it"))) from error


def wheels_of(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the artifacts of kind wheel that take part in the resolution."""
    return _own(inputs, "wheels")


def _own(inputs: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of our own table, which uv does not read."""
    return tuple(inputs.get("tool", {}).get("sparkwright", {}).get(key, ()))


def compile_set(path: Path, wheels: Sequence[Artifact], words: Sequence[str] = ()) -> list[Chosen]:
    """Resolve a set; the wheels that are artifacts themselves are left out of the answer.

    + path: the .toml; distributions under `held` are resolved without the wheels first, and then
      kept whatever the wheels ask for: uv takes an override from the default index alone, which
      has a CPU torch of the same version
    + wheels: resolved artifacts of kind wheel whose dependencies belong to the set
    + words: further words for uv

    Raises SparkwrightError with uv's words.
    """
    names = {canonicalize_name(name) for name in _own(inputs_of(path), "held")}
    first = _compile(path, (), (), words) if names else []
    held = [item for item in first if item.project in names]
    urls = [f"{item.project} @ {item.file.url}" for item in held]
    asked = [wheel_line(item, item.project or item.name) for item in wheels]
    done = names | {canonicalize_name(item.project or item.name) for item in wheels}
    return [*held, *_compile(path, asked, urls, words, done)]


def _compile(
    path: Path,
    wheels: Sequence[str],
    overrides: Sequence[str],
    words: Sequence[str],
    done: Collection[str] = (),
) -> list[Chosen]:
    """One run of uv; `done` are distributions that are known already."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(path, Path(folder, "pyproject.toml"))
        Path(folder, "wheels.in").write_text("".join(f"{line}\n" for line in wheels))
        Path(folder, "held.in").write_text("".join(f"{line}\n" for line in overrides))
        more = ["--overrides", "held.in"] if overrides else []
        argv = [find_uv(), "pip", "compile", *OPTIONS, *words, *more, "-o", "pylock.toml"]
        ended = subprocess.run(  # noqa: S603 - uv, with words of ours
            [*argv, "pyproject.toml", "wheels.in"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode != 0:
            told = " ".join(ended.stderr.split())[-600:]
            raise SparkwrightError(str(Problem(path.name, f"uv cannot resolve it: {told}")))
        locked = tomllib.loads(Path(folder, "pylock.toml").read_text())
    rest = [item for item in locked["packages"] if canonicalize_name(item["name"]) not in done]
    sources = inputs_of(path).get("tool", {}).get("uv", {}).get("sources", {})
    elsewhere = {canonicalize_name(name) for name in sources}
    return [_choose(path.name, package, elsewhere) for package in rest]


def _choose(where: str, package: Mapping[str, Any], elsewhere: Collection[str]) -> Chosen:
    """The wheel that a Spark takes; uv has listed those that fit, sometimes several.

    + elsewhere: distributions of another index; the machines' own does not have their files
    """
    entries = {_name(item): item for item in package.get("wheels", ())}
    files = best(WheelFile(name, item["url"]) for name, item in entries.items())
    if not files:
        what = f"{package['name']} {package.get('version')} has no wheel for {PLATFORM}"
        raise SparkwrightError(str(Problem(where, what, "choose another version")))
    entry = entries[files[0].name]
    return Chosen(
        package["name"],
        files[0].version,
        files[0],
        entry.get("size"),
        entry["hashes"]["sha256"],
        package["name"] not in elsewhere,
    )


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or unquote(urlsplit(entry["url"]).path.rsplit("/", 1)[-1]))


def total(chosen: Sequence[Chosen]) -> int | None:
    """Bytes of all wheels, None when an index does not say."""
    sizes = [item.size for item in chosen if item.size is not None]
    return sum(sizes) if sizes and len(sizes) == len(chosen) else None


def render(name: str, chosen: Sequence[Chosen]) -> str:
    """The requirements file of a set."""
    size = total(chosen)
    shown = f", {size} bytes" if size else ""
    head = (
        f"# {len(chosen)} wheels{shown}: Linux {PLATFORM.split('-')[0]}, glibc 2.{GLIBC}, "
        f"CPython {MINOR}.\n# Made from vllm-{name}.toml by: sparkwright lock --wheels {name}\n"
    )
    return head + "".join(f"{item.line}\n" for item in sorted(chosen, key=lambda c: c.project))


def write_set(
    path: Path, name: str, wheels: Sequence[Artifact], tell: Callable[[str], None]
) -> list[Chosen]:
    """Resolve a set and replace its requirements file. Raises SparkwrightError, OSError.

    + path: the .txt
    """
    tell(f"resolving {path.stem} for {PLATFORM}, Python {MINOR}")
    chosen = compile_set(path.with_suffix(".toml"), wheels)
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(render(name, chosen), encoding="utf-8")
    beside.replace(path)
    return chosen
