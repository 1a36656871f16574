"""What `sparkwright verify` shows: text, an object, and one self-contained page."""

from __future__ import annotations

import dataclasses
import html
import time
from collections.abc import Sequence
from typing import Any

from sparkwright.verify_checks import Check, code

WORDS = {True: "ok", False: "WRONG", None: "unknown"}
STATES = {0: "ok", 1: "wrong", 2: "unknown"}
STYLE = """body{font:16px/1.45 system-ui,sans-serif;margin:1rem auto;max-width:60rem;padding:0 1rem;
color:#1a1a1a;background:#fff}h1{font-size:1.4rem}h2{font-size:1.1rem;margin:1.5rem 0 .3rem}
.c{border-left:.4rem solid #2e7d32;padding:.3rem .7rem;margin:.4rem 0;background:#f4f6f4}
.c.WRONG{border-color:#b71c1c;background:#fdecea}.c.unknown{border-color:#8e24aa;background:#f7eef9}
b{display:inline-block;min-width:9rem}code{font-size:.9em;overflow-wrap:anywhere}
p{margin:.2rem 0;overflow-wrap:anywhere}"""


def lines(made: Sequence[Check]) -> list[str]:
    """The answer for people: what is wrong with how to look closer, what is well in a line."""
    shown, last = [], ""
    for check in made:
        head = f"{check.machine} {check.recipe}".strip()
        if head != last:
            shown.append(head)
            last = head
        shown.append(f"  {WORDS[check.ok]:<8}{check.name}: {check.seen}")
        if not check.ok:
            shown.append(f"          wanted: {check.wanted}")
            shown.append(f"          look closer: {check.look}  ({check.docs})")
    return [*shown, summary(made)]


def summary(made: Sequence[Check]) -> str:
    """One line."""
    bad = sum(check.ok is False for check in made)
    unknown = sum(check.ok is None for check in made)
    return f"{len(made)} checks: {len(made) - bad - unknown} ok, {bad} wrong, {unknown} unknown"


def as_json(made: Sequence[Check], now: float) -> dict[str, Any]:
    """The object of docs/schemas/verify.json."""
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "state": STATES[code(made)],
        "checks": [dataclasses.asdict(check) for check in made],
    }


def page(made: Sequence[Check], now: float) -> str:
    """One page of HTML that needs nothing else, for a phone as well."""
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    body, last = [], ""
    for check in made:
        head = f"{check.machine} {check.recipe}".strip()
        if head != last:
            body.append(f"<h2>{html.escape(head)}</h2>")
            last = head
        body.append(_block(check))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>sparkwright verify</title><style>{STYLE}</style></head><body>"
        f"<h1>{html.escape(summary(made))}</h1><p>{at}</p>{''.join(body)}</body></html>\n"
    )


def _block(check: Check) -> str:
    word = WORDS[check.ok]
    text = f"<p><b>{word}</b> {html.escape(check.name)}: {html.escape(check.seen)}</p>"
    if not check.ok:
        text += f"<p>wanted: {html.escape(check.wanted)}</p>"
        text += f"<p>look closer: <code>{html.escape(check.look)}</code></p>"
    return f'<div class="c {word}">{text}</div>'
