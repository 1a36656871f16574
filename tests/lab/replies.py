"""An answer of the upstream before it goes on the wire, and how a test spoils it."""

from __future__ import annotations

import fnmatch
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path

LOGIN_PAGE = b"<!DOCTYPE html><html><title>Sign in</title><form>Network login</form></html>\n"


@dataclass
class Reply:
    """Status, headers, and a body in memory or in a file."""

    status: int = 200
    body: bytes | Path = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the whole body."""
        return len(self.body) if isinstance(self.body, bytes) else self.body.stat().st_size


def as_json(value: object, status: int = 200, **headers: str) -> Reply:
    """A JSON answer."""
    body = json.dumps(value).encode()
    return Reply(status, body, {"Content-Type": "application/json", **headers})


def failure(status: int, text: str, code: str = "") -> Reply:
    """An error as the Hub words it: JSON, and a machine-readable code in a header."""
    headers = {"X-Error-Code": code, "X-Error-Message": text} if code else {}
    return as_json({"error": text}, status, **headers)


@dataclass
class Rule:
    """One misbehaviour.

    + glob: which paths (without query), in shell style
    + cut_after: bytes of the body sent before the connection is closed
    + stall: send nothing more (after `cut_after` bytes, 0 by default) until the rule is cleared
    + html_login: answer 200 with a network's login page
    + status: answer this error
    + rate: bytes a second
    + corrupt: flip the bits of the last byte that is sent
    + once: only for the first GET of each path
    """

    glob: str
    cut_after: int | None = None
    stall: bool = False
    html_login: bool = False
    status: int | None = None
    rate: int | None = None
    corrupt: bool = False
    once: bool = False
    used: set[str] = field(default_factory=set)


class Rules:
    """The present misbehaviours, safe among threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []

    def replace(self, rules: list[dict[str, object]]) -> None:
        """Forget the old ones; stalled answers end."""
        new = [Rule(**rule) for rule in rules]  # type: ignore[arg-type]
        with self._lock:
            self._rules = new

    def match(self, path: str, method: str) -> Rule | None:
        """The first rule for a path; HEAD does not use up a rule that is for once."""
        with self._lock:
            for rule in self._rules:
                if fnmatch.fnmatchcase(path, rule.glob) and path not in rule.used:
                    if rule.once and method == "GET":
                        rule.used.add(path)
                    return rule
        return None

    def active(self, rule: Rule) -> bool:
        """Whether a rule has not been cleared."""
        with self._lock:
            return rule in self._rules


def spoil(reply: Reply, rule: Rule) -> Reply:
    """The answer that a rule puts in place of the right one."""
    if rule.status is not None:
        return failure(rule.status, "refused by the lab's rule")
    if rule.html_login:
        return Reply(200, LOGIN_PAGE, {"Content-Type": "text/html"})
    return reply
