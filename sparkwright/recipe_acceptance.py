"""The part of a recipe that says what is asked after a start, and what must come back."""

from __future__ import annotations

from typing import Final

from sparkwright.recipe_rules import regex_problem
from sparkwright.recipe_types import Acceptance
from sparkwright.yaml_reader import Reader, above_zero, not_blank, one_of

# Ours: room for a reasoning model's thoughts before a one-word answer.
MAX_TOKENS: Final = 1024
_PAGE: Final = ("expect", "log_must", "log_must_not")


def read_acceptance(part: Reader, serves: str) -> Acceptance:
    """The questions of a recipe; of a web page only its text and its log.

    + serves: the engine, or what a container serves
    """
    web = serves == "web"
    acceptance = Acceptance(
        question=_text(part, "question") if web else part.take("question", str, check=not_blank),
        expect=part.take("expect", str, check=not_blank),
        max_tokens=part.take("max_tokens", int, MAX_TOKENS, check=above_zero),
        finish_reason=part.take(
            "finish_reason", str, "stop", check=one_of("stop", "length", "tool_calls")
        ),
        log_must=part.texts("log_must", check=regex_problem),
        log_must_not=part.texts("log_must_not", check=regex_problem),
        system=_text(part, "system") or None,
        system_expect=_text(part, "system_expect") or None,
        long_question=_text(part, "long_question") or None,
    )
    part.finish()
    if part.has("system") != part.has("system_expect"):
        here, other = ("system", "system_expect")[:: 1 if part.has("system") else -1]
        part.fail(here, f"stands with {other} or not at all", "write both, or neither")
    for key, _ in part.items() if web else ():
        if key not in _PAGE:
            part.fail(key, "is not asked of a web page", "remove it")
    return acceptance


def _text(part: Reader, key: str) -> str:
    return part.take(key, str, "", not_blank)
