"""Where single wheels are looked up: a package index's page, a GitHub release's list of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

import requests
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from sparkwright.errors import Problem, SparkwrightError

# DGX OS 7 is Ubuntu 24.04: glibc 2.39, Python 3.12.
PYTHON: Final = (3, 12)
PLATFORM: Final = "aarch64-manylinux_2_39"  # in uv's words
GLIBC: Final = 39
OLDEST_GLIBC: Final = 17  # manylinux2014's; aarch64 has no older level
TIMEOUT_S: Final = 60.0  # our choice: pages of a few kB

Page = Callable[[str], str]


@dataclass(frozen=True)
class WheelFile:
    """A wheel as an index or a release names it."""

    name: str
    url: str

    @property
    def project(self) -> str:
        """Normalised name of the distribution; empty when this is no wheel."""
        return parts(self.name)[0]

    @property
    def version(self) -> str:
        """Version with its local part."""
        return parts(self.name)[1]

    @property
    def sha256(self) -> str | None:
        """The hash that an index puts behind the address (PEP 503)."""
        fragment = urlsplit(self.url).fragment
        return fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None


def page(url: str) -> str:
    """The text of a web page. Raises SparkwrightError."""
    try:
        with requests.get(url, timeout=TIMEOUT_S) as answer:
            if answer.status_code != requests.codes.ok:
                what = f"the server answered {answer.status_code}"
                raise SparkwrightError(str(Problem(url, what, "check the address")))
            return answer.text
    except requests.RequestException as error:
        what = f"cannot be fetched ({type(error).__name__})"
        raise SparkwrightError(str(Problem(url, what, "check the network"))) from error


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for key, value in attrs if key == "href" and value]


def wheels_on(url: str, text: str) -> list[WheelFile]:
    """The wheels that a page links to, each once, in its order."""
    reader = _Links()
    reader.feed(text)
    found: dict[str, WheelFile] = {}
    for link in reader.found:
        name = unquote(urlsplit(link).path.rsplit("/", 1)[-1])
        if parts(name)[0]:
            found.setdefault(name, WheelFile(name, urljoin(url, link)))
    return list(found.values())


def assets_url(releases: str, tag: str) -> str:
    """GitHub's page with the files of one release; it needs no account and no API."""
    return f"{releases.rstrip('/')}/expanded_assets/{tag}"


def parts(name: str) -> tuple[str, str, frozenset[Tag]]:
    """(normalised distribution, version, tags) of a file name; empty ones for other files."""
    try:
        project, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return "", "", frozenset()
    return str(project), str(version), tags


def ranks() -> dict[Tag, int]:
    """Tags that a Spark takes, best first: the order in which pip and uv choose."""
    arch = PLATFORM.split("-", maxsplit=1)[0]
    platforms = [f"manylinux_2_{minor}_{arch}" for minor in range(GLIBC, OLDEST_GLIBC - 1, -1)]
    platforms += [f"manylinux2014_{arch}", f"linux_{arch}"]
    abi = "cp" + "".join(map(str, PYTHON))
    every = [
        *cpython_tags(PYTHON, [abi], platforms),
        *compatible_tags(PYTHON, abi, platforms),
    ]
    return {tag: rank for rank, tag in reversed(list(enumerate(every)))}


def best(files: Iterable[WheelFile]) -> list[WheelFile]:
    """The files that a Spark takes, best first."""
    known = ranks()

    def rank(file: WheelFile) -> tuple[int, str]:
        return min(
            (known[tag] for tag in parts(file.name)[2] if tag in known), default=-1
        ), file.name

    return sorted((file for file in files if rank(file)[0] >= 0), key=rank)


def of_project(files: Iterable[WheelFile], project: str) -> Iterator[WheelFile]:
    """The wheels of one distribution."""
    wanted = canonicalize_name(project)
    return (file for file in files if file.project == wanted)
