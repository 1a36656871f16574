"""Takes secrets, serial numbers and addresses out of a text; the same thing gets the same number.

Rather too much than too little: what only looks like an address goes as well.

A log may hold a word of a megabyte. So nothing here looks at a character more than a few times: a
pattern that begins with a repetition would try each place of such a word, and each time to its end.
What may stand before a name or behind it is found from that name, or possessively (`*+`) from the
one place where a word begins.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Final

_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
)
# NAME=value, name: value, --name value, "name": "value", for names that say that it is a secret;
# up to the value, which _VALUE takes.
_NAMED = re.compile(
    r"""(?ix) (?<![\w-])
    (?= [\w-]*? (?:api[_-]?key|token|secret|passw(?:or)?d|passphrase|credential) ) [\w-]++
    ["']? (?: \s*+[=:]\s*+ | \s++ ) ["']? (?!<) (?= [^\s"',;}\]]{4} )"""
)
_VALUE = re.compile(r"""[^\s"',;}\]]+""")
# Names that end like those above and hold no secret: numbers, and files that hold one.
_HARMLESS = re.compile(
    r"(?i)(tokens|_token_id|token_ids|tokens_per|tokenizer|key[_-]file|password_env)\b|"
    r"(?<![a-z0-9])(?:max|num)[_-]|tiktoken"
)
_BARE: Final = (
    re.compile(r"\bhf_[A-Za-z0-9]{10,}"),
    re.compile(r"\b(?:sk|pk|ghp|gho|github_pat|glpat|nvapi|xox[abp])[-_][A-Za-z0-9_-]{10,}"),
    re.compile(r"(?i)(?<=bearer )[^\s\"'<]+"),
    re.compile(r"(?i)(?<=basic )[A-Za-z0-9+/=]{8,}"),
)
# A word of three parts, of which the first has, from some place on, the head of a JSON web token.
_JWT = re.compile(
    r"(?<![\w-])(?=[\w-]*+\.[\w-]{8,}+\.)([\w-]*?)\beyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+"
)
_LOGIN = re.compile(r"(?<=://)[^\s/@\"']+(?=@)")
_SERIAL = re.compile(r"(?i)\b(?:serial|uuid|asset tag|service tag|imei)")
_SERIAL_NAME = re.compile(r"[\w ]*+")  # what may follow such a word
_SERIAL_VALUE = re.compile(r"[:=]\s*+(?!<)([^\s,;]+)")
_UUID = re.compile(r"(?i)\b(?:GPU-|MIG-)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")
_ID = re.compile(r"\b[0-9a-f]{32}\b")
_MAC = re.compile(r"(?i)\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5,7}\b")
_V4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d]|\.\d)")
_V6 = re.compile(
    r"(?i)(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}(?:[0-9a-f]{1,4}|(?:\d{1,3}\.){3}\d{1,3})?(?![\w:])"
)
_MAIL_END = re.compile(r"@[\w-]+(?:\.[\w-]+)+\b")
_MAIL_NAME = re.compile(r"[\w.+-]*+")  # of a text that is read backwards
_HOME = re.compile(r"(?<=/home/)[^/\s:\"'<]+|(?<=/Users/)[^/\s:\"'<]+")


class Redactor:
    """Removes what must not leave, with one memory for a whole report.

    + secrets: texts that are removed wherever they stand, whatever they look like
    + addresses: host names and the like, that no pattern would find
    """

    def __init__(self, secrets: Iterable[str] = (), addresses: Iterable[str] = ()) -> None:
        self.secrets = sorted({s for s in secrets if len(s) >= 4}, key=len, reverse=True)
        self.addresses = sorted({a for a in addresses if a}, key=len, reverse=True)
        self._numbers: dict[str, dict[str, int]] = {}
        self.counts: dict[str, int] = {}

    def clean(self, text: str) -> str:
        """The text without them."""
        for secret in self.secrets:
            text = self._count("secret", text.count(secret), text.replace(secret, "<secret>"))
        text = self._sub(_KEY, text, lambda _: self._one("private-key"))
        text = self._named(text)
        text = self._sub(_JWT, text, lambda m: m[1] + self._one("secret"))
        for pattern in _BARE:
            text = self._sub(pattern, text, lambda _: self._one("secret"))
        text = self._sub(_LOGIN, text, lambda _: self._one("login"))
        text = self._sub(_UUID, text, lambda m: self._name("uuid", m[0]))
        text = self._serials(text)
        text = self._sub(_ID, text, lambda m: self._name("id", m[0]))
        text = self._mails(text)
        for name in self.addresses:
            pattern = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
            text = self._sub(pattern, text, lambda m: self._name("address", m[0]))
        text = self._sub(_MAC, text, lambda m: self._name("mac", m[0].lower()))
        for pattern in (_V6, _V4):
            text = self._sub(pattern, text, self._address)
        text = self._sub(_HOME, text, lambda m: self._name("user", m[0]))
        return self._named(text, deep=True)

    @staticmethod
    def _sub(pattern: re.Pattern[str], text: str, make: Callable[[re.Match[str]], str]) -> str:
        return pattern.sub(make, text)

    def _count(self, kind: str, times: int, text: str) -> str:
        if times:
            self.counts[kind] = self.counts.get(kind, 0) + times
        return text

    def _one(self, kind: str) -> str:
        return self._count(kind, 1, f"<{kind}>")

    def _name(self, kind: str, value: str) -> str:
        numbers = self._numbers.setdefault(kind, {})
        number = numbers.setdefault(value, len(numbers) + 1)
        return self._count(kind, 1, f"<{kind}-{number}>")

    def _named(self, text: str, deep: bool = False) -> str:
        """Values whose names say that they are secret.

        + deep: look into the values of harmless names too: `tokens password=…`. Last, for there a
          label that stands before an address or a serial number may be taken for a secret.
        """
        parts, kept, at, end = [], 0, 0, None
        while (hit := _NAMED.search(text, at, end or len(text))) or end:
            if hit is None:  # no more in the value of a harmless name
                at, end = end or 0, None
                continue
            past = end or self._end(_VALUE, text, hit.end())
            if _HARMLESS.search(hit[0]):
                at, end = (hit.end(), past) if deep else (past, None)
            else:
                parts += [text[kept : hit.end()], self._one("secret")]
                kept = at = past
        return "".join([*parts, text[kept:]])

    @staticmethod
    def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
        hit = pattern.match(text, at)
        return hit.end() if hit else at

    def _serials(self, text: str) -> str:
        """What follows the words of _SERIAL; all words before one colon are looked at as one."""
        parts, kept, past = [], 0, 0
        for hit in _SERIAL.finditer(text):
            if hit.start() < past:
                continue
            past = self._end(_SERIAL_NAME, text, hit.end())
            if value := _SERIAL_VALUE.match(text, past):
                parts += [text[kept : value.start(1)], self._name("serial", value[1])]
                kept = past = value.end()
        return "".join([*parts, text[kept:]])

    def _mails(self, text: str) -> str:
        """Addresses of mail, found from their @; what stands before it is read backwards."""
        parts, kept, past = [], 0, 0
        for hit in _MAIL_END.finditer(text):
            begin = hit.start() - self._end(_MAIL_NAME, text[past : hit.start()][::-1], 0)
            if not begin == kept > 0:  # behind another one, what joins them goes as well
                begin = hit.start() - len(text[begin : hit.start()].lstrip(".+-"))
            past = hit.start() + 1  # without a name its end may be that of the next one
            if begin < hit.start():
                parts += [text[kept:begin], self._name("mail", text[begin : hit.end()])]
                kept = past = hit.end()
        return "".join([*parts, text[kept:]])

    def _address(self, match: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        if address.is_loopback or address.is_unspecified:
            return match[0]
        return self._name("address", str(address))
