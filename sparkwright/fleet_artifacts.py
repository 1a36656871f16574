"""The artifacts section of sparks.yaml: the lock, and where everything from outside comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sparkwright.fleet_ssh import path_problem
from sparkwright.paths import PROJECT
from sparkwright.unit_sections import HIDDEN, PLAIN
from sparkwright.yaml_reader import Reader, Verdict, not_blank, one_of

WORDS: Final = ("upstream", "mirror", "bundle")
_WANTS: Final = {"mirror": "url", "bundle": "path"}
_EXAMPLES: Final = {
    "url": "url: http://files.example.lan/bundle",
    "path": "path: /media/usb/bundle",
}


@dataclass(frozen=True)
class Artifacts:
    """Where everything from outside comes from.

    + url: of a web server that serves a bundle (mirror); path: a bundle on this computer (bundle)
    + library: directory on the machines (a mounted NAS) that may hold weights; they stay in it,
      or are copied to the machine with library_copy
    """

    source: str
    url: str = ""
    path: str = ""
    library: str = ""
    library_copy: bool = False


def read_artifacts(directory: Path, part: Reader) -> tuple[Artifacts, Path]:
    """The section and the lock's path; relative paths are taken from the fleet file's directory."""
    source = part.take("from", str, "upstream", check=one_of(*WORDS))
    default = directory / "artifacts.lock.yaml"
    if not default.exists():
        default = PROJECT / "artifacts.lock.yaml"
    lock = part.take("lock", str, str(default), check=path_problem)
    url = part.take("url", str, "", check=_url_problem)
    path = part.take("path", str, "", check=not_blank)
    library = part.take("library", str, "", check=_library_problem)
    copy = part.take("library_copy", bool, False)
    if copy and not library:
        part.fail("library_copy", "there is no library to copy from", "add library: /mnt/models")
    for word, key in _WANTS.items():
        _belongs(part, source, word, key)
    part.finish(
        {
            "key": "the key is bundle-key.asc beside this file",
            "mirror": f"write from: mirror and {_EXAMPLES['url']}",
            "bundle": f"write from: bundle and {_EXAMPLES['path']}",
        }
    )
    place = str(directory / Path(path).expanduser()) if path else ""
    found = Artifacts(source, url.rstrip("/"), place, library.rstrip("/"), copy)
    return found, directory / Path(lock).expanduser()


def _belongs(part: Reader, source: str, word: str, key: str) -> None:
    """A key that the source needs is there, and one that it does not use is not."""
    if source == word and not part.has(key):
        part.fail("", f"{key} is missing, from: {word} needs it", f"add {_EXAMPLES[key]}")
    if source != word and part.has(key):
        part.fail(key, f"belongs to from: {word}, and this says from: {source}", "remove it, or "
                  f"write from: {word}")  # fmt: skip


def _library_problem(path: str) -> Verdict:
    """Why services cannot use weights there, or None: the same rules as for a unit's own paths."""
    if not PLAIN.fullmatch(path.rstrip("/")) or "/." in path:
        return f'must be a plain absolute path, not "{path}"', "write library: /mnt/models"
    if f"{path}/".startswith(HIDDEN):
        return f"{path} is hidden from services", "mount it below /mnt or /srv"
    return None


def _url_problem(url: str) -> Verdict:
    """Why this is no address of a web server's directory, or None."""
    if "@" in url.split("//", 1)[-1].split("/", 1)[0]:
        return "holds a user name or password", "no secrets in this file; serve it without"
    if re.fullmatch(r"https?://[A-Za-z0-9._\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", url):
        return None
    return f'must be http://host:port/path, not "{url}"', f"write {_EXAMPLES['url']}"
