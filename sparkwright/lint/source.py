"""A file's bytes as text, or why it cannot be linted."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final

# The longest serve script known to us has 3,000 lines and 130 KB; an archive is not a script.
MAX_BYTES: Final = 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


class CannotLint(Exception):
    """A file that cannot be judged; the text says why and what to do."""


@dataclass(frozen=True)
class Source:
    """A file that can be parsed.

    + text: undecodable bytes as lone surrogates, line ends as in the file
    + bad_bytes: (line, column) of the first undecodable byte
    """

    path: str
    text: str
    bom: bool = False
    crlf: bool = False
    bad_bytes: tuple[int, int] | None = None


def read(path: str) -> Source:
    """Read a file; raises CannotLint."""
    try:
        # Without O_NONBLOCK a FIFO keeps the lint waiting for somebody who writes.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CannotLint("is not a regular file; name the file itself")
            raw = file.read(MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise CannotLint("is a directory; name the files in it") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotLint(f"cannot be read ({reason}); look at: ls -ld {path}") from error
    except ValueError as error:
        raise CannotLint(f"is no path ({error}); name a file") from error
    return decode(path, raw)


def decode(path: str, raw: bytes) -> Source:
    """Bytes as text; raises CannotLint for what is no text that people write."""
    if len(raw) > MAX_BYTES:
        raise CannotLint(f"is larger than {MAX_BYTES} bytes; no unit, script or recipe is")
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise CannotLint("is UTF-16 text, which no shell or systemd reads; save it as UTF-8")
    if b"\0" in raw:
        raise CannotLint("is a binary file (it has NUL bytes); name a text file")
    bom = raw.startswith(_BOM)
    text = raw[len(_BOM) :].decode("utf-8", "surrogateescape") if bom else _text(raw)
    return Source(path, text, bom, "\r\n" in text, _first_bad(text))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _first_bad(text: str) -> tuple[int, int] | None:
    if text.isascii():
        return None
    at = next((i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff"), -1)
    if at < 0:
        return None
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
