"""Verdicts and what a finding says.

The one question behind a verdict, asked of the file as it stands, on the build it is for:
*would the machine do something other than the file says?*
BLOCK: it will not start, will run something else than written without saying so, or can wedge
the machine. WARN: it runs as written now, and costs or breaks something later, elsewhere or
under load. NOTE: it runs as written; worth knowing, or depends on something not at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sparkwright.lint.model import At


class Verdict(StrEnum):
    """How bad it is; see the module's docstring."""

    BLOCK = "BLOCK"
    WARN = "WARN"
    NOTE = "NOTE"


@dataclass(frozen=True)
class Found:
    """What a rule yields.

    + message: what is wrong, one sentence without the fix
    + fix: what to write instead, for this build
    + sees: exactly what the program gets, "" when nothing more is known
    + verdict: None = the rule's own
    + source: "" = the rule's own
    """

    at: At
    message: str
    fix: str
    sees: str = ""
    verdict: Verdict | None = None
    source: str = ""


@dataclass(frozen=True)
class Finding:
    """A rule's finding with everything that is printed."""

    file: str
    line: int
    column: int
    verdict: Verdict
    rule: str
    message: str
    sees: str
    fix: str
    source: str

    def order(self) -> tuple[object, ...]:
        """Where it goes in a list: by place, then by rule."""
        return (self.file, self.line, self.column, self.rule, self.message)
