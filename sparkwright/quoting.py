"""Words and assignments of systemd units, for any text that systemd can carry.

Rules: systemd.syntax(7) (quotes, C escapes, continuation), systemd.service(5) "Command lines"
(prefixes, "$", ";", "%"), systemd.exec(5) Environment=. What the manual leaves open was tried
with systemd 252 and 257, and tests/lab_tests/test_quoting_systemd.py starts units to prove it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from sparkwright.errors import SparkwrightError

# One logical line, continuations included (systemd src/basic/def.h: LONG_LINE_MAX, 1 MiB).
# The margin covers the directive's name and the continuation marks.
LINE_MAX_BYTES = 1024 * 1024 - 1024
# execve(2): one argument or assignment with its NUL is at most MAX_ARG_STRLEN, 32 pages of 4 KiB.
WORD_MAX_BYTES = 32 * 4096 - 1

_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def exec_word(text: str) -> str:
    """One argument of ExecStart= and its relatives (not the program: see exec_line).

    Raises SparkwrightError for text that systemd cannot carry: NUL, lone surrogates, Unicode
    noncharacters, more than 131,071 bytes.
    """
    _check(text, "argument")
    if _PLAIN.fullmatch(text):
        return text
    return _quoted(text.replace("$", "$$"))


def environment(name: str, value: str) -> str:
    """A whole line `Environment="NAME=value"`; "$" has no meaning there and stays single.

    Raises SparkwrightError for a bad name and for a value as in exec_word.
    """
    if not _NAME.fullmatch(name):
        raise SparkwrightError(
            f"environment variable {name!r}: systemd takes letters, digits and '_' only, "
            "no digit first; rename it"
        )
    assignment = f"{name}={value}"
    _check(assignment, f"environment variable {name}")
    return "Environment=" + _quoted(assignment)


def exec_line(argv: Sequence[str], *, root: bool = False) -> str:
    """A whole command line: the program, then one option with its value a line.

    + argv: the program's absolute path first
    + root: run with full privileges whatever User= says (the "+" prefix)

    Raises SparkwrightError for a program path that systemd refuses or changes, for arguments as in
    exec_word, and for a line that is longer than systemd reads.
    """
    if not argv:
        raise SparkwrightError("command line: it is empty; give a program")
    words = [_program(argv[0], "+" if root else "")]
    for before, text in itertools.pairwise(argv):
        starts_line = text.startswith("-") or not before.startswith("-") or before == argv[0]
        words.append((" \\\n    " if starts_line else " ") + exec_word(text))
    line = "".join(words)
    if len(line.encode()) > LINE_MAX_BYTES:
        raise SparkwrightError(
            f"command line of {argv[0]}: {len(line.encode())} bytes when quoted, systemd reads "
            f"{LINE_MAX_BYTES}; put the long value into a file"
        )
    return line


def plain_text(text: str) -> str:
    """A value that systemd does not split into words, such as Description=.

    Raises SparkwrightError for what such a value cannot hold: line ends and other invisible
    characters, a space at an end, a backslash at the end (it would join the next line).
    """
    _check(text, "text")
    if not text.isprintable() or text != text.strip() or text.endswith("\\"):
        raise SparkwrightError(
            f"text {text!r}: systemd needs one visible line without spaces or a backslash at its "
            "end; shorten it"
        )
    return text.replace("%", "%%")


def _program(path: str, prefix: str) -> str:
    """The first word. Its prefixes are read after unquoting, and "$" is literal in it."""
    _check(path, "program")
    wrong = ""
    if not path.startswith("/"):
        # A leading "-", "@", ":", "+" or "!" would be a prefix, "~" is not expanded.
        wrong = "is not an absolute path"
    elif re.search(r"[\x00-\x1f\x7f\"'\\]", path):
        wrong = "has a control character, quote or backslash, which systemd refuses"
    elif re.search(r"//|/\.(/|$)|/\.\.(/|$)|/$", path):
        wrong = "is not in its shortest form, and systemd would rewrite it"
    if wrong:
        raise SparkwrightError(f"program {path!r}: {wrong}; give another path")
    if "$" not in path:
        word = exec_word(path)
        return prefix + word if word == path else f"{word[0]}{prefix}{word[1:]}"
    # argv[0] undergoes "$" expansion and the path does not: "@" lets the two differ.
    return _quoted(f"{prefix}@{path}") + " " + exec_word(path)


def _quoted(text: str) -> str:
    # Specifiers are expanded after unescaping, so "%" is doubled and never written as \x25.
    return '"' + "".join(_escape(char) for char in text.replace("%", "%%")) + '"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    # Invisible and direction-changing characters stay readable in the unit as escapes.
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _check(text: str, what: str) -> None:
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    if "\0" in text:
        raise SparkwrightError(f"{what} {shown}: has a NUL byte, which no process can get")
    for char in text:
        code = ord(char)
        if 0xD800 <= code <= 0xDFFF or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE:
            raise SparkwrightError(
                f"{what} {shown}: U+{code:04X} is not valid text for systemd; remove it"
            )
    size = len(text.encode())
    if size > WORD_MAX_BYTES:
        raise SparkwrightError(
            f"{what} {shown}: {size} bytes, Linux passes {WORD_MAX_BYTES}; put it into a file"
        )
