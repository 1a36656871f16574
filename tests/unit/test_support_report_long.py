"""`sparkwright report` on logs with very long words: it ends, and what must not leave does not.

A pattern that tries each place of a word, and each time to its end, needs 10^11 steps for these:
minutes, or hours with a second repetition. So each is cleaned in a process that has one minute; it
needs about a second.
"""

from __future__ import annotations

import base64
import random
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import pytest

from sparkwright import journal
from sparkwright.support_report_redact import Redactor
from tests.unit.test_support_report import PLANTED

SIZE: Final = 600_000
SECONDS: Final = 60
# What is said again and again: each makes some pattern begin often, and go on for long.
PARTS: Final[Mapping[str, str]] = {
    "letters": "a", "a name": "token", "names": "token-", "harmless": "max_token=",
    "harmless names": "tokens ", "jwt": "-eyJ", "jwts": "eyJabcdefgh.", "key": "sk-",
    "serials": "serial ", "uuids": "uuid:", "mail": "a@", "names of mail": "a.",
    "ends of mail": "@a.-", "mails": "a@b.c-", "logins": "://a", "v6": "a:", "colons": ":",
    "v4": "1.", "macs": "00:11-", "dashes": "-----BEGIN ", "begun": "-----BEGIN A PRIVATE KEY",
    "ended": "-----END A", "spaces": " ", "lines": "\n", "errors": "Error",
}  # fmt: skip
OTHERS: Final = ("hex", "base64", "urlsafe", "a name, then spaces", "a name, then a value")


def long_word(name: str) -> str:
    """A word of that kind."""
    if part := PARTS.get(name):
        return part * (SIZE // len(part))
    if name.startswith("a name, then"):
        half = SIZE // 2
        return "a" * half + (
            "token=" + "b" * half if name.endswith("value") else "token" + " " * half
        )
    data = random.Random(8).randbytes(SIZE)
    if name == "hex":
        return data.hex()[:SIZE]
    code = base64.b64encode if name == "base64" else base64.urlsafe_b64encode
    return code(data).decode()[:SIZE]


def texts(word: str) -> list[tuple[str, list[str]]]:
    """Texts with the word before, behind and beside what must be gone, and what that is."""
    lines, secrets = [text for text, _ in PLANTED if "BEGIN" not in text], [s for _, s in PLANTED]
    key = next(text for text, _ in PLANTED if "BEGIN OPENSSH" in text)
    return [
        ("\n".join([f"{word} HF_TOKEN=hf_AbCdEfGhIjKlMnOp", *lines, key, word]), secrets),
        (f"{word}_password=hunter22 password=a-Tr0ub4dor-b{word}", ["hunter22", "Tr0ub4dor"]),
    ]


def main(name: str) -> None:
    """Clean the texts of a word; fails where a secret is left."""
    word = long_word(name)
    for text, secrets in texts(word):
        cleaned = Redactor(["Tr0ub4dor"], ["spark-7.lan"]).clean(text)
        left = [s for s in secrets if s in text and s in cleaned and s not in word]
        assert left == [], (name, left, text[:60])
    journal.causes(word)


@pytest.mark.parametrize("name", [*PARTS, *OTHERS])
def test_a_very_long_word(name: str) -> None:
    argv = [sys.executable, "-m", __spec__.name, name]
    subprocess.run(argv, check=True, timeout=SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
