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
# Colours of text on their ground have a contrast of 4.5 or more (WCAG 2.2, 1.4.3); a test in a
# browser measures it, in light and dark.
STYLE = """:root{color-scheme:light dark;--text:#1a1a1a;--ground:#fff;--soft:#555;--ok:#1b5e20;
--ok-ground:#eef5ee;--WRONG:#a11212;--WRONG-ground:#fdecea;--unknown:#6a1b9a;
--unknown-ground:#f6edf8}
@media (prefers-color-scheme:dark){:root{--text:#e8e8e8;--ground:#16181a;--soft:#a9adb1;
--ok:#81c784;--ok-ground:#1c2620;--WRONG:#ff8a80;--WRONG-ground:#331b1b;--unknown:#d7a6e4;
--unknown-ground:#2a1e2e}}
*{box-sizing:border-box}body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:60rem;
padding:1rem;color:var(--text);background:var(--ground)}h1{font-size:1.35rem;margin:0}
h2{font-size:1.1rem;margin:1.6rem 0 .4rem;overflow-wrap:anywhere}
.at{color:var(--soft);margin:.2rem 0}
.c{border-left:.35rem solid;padding:.4rem .7rem;margin:.35rem 0;border-radius:.2rem}
.c p{margin:.1rem 0;overflow-wrap:anywhere;color:var(--text)}.c b{margin-right:.5em}
.c p.more{color:var(--soft)}code{font:.9em ui-monospace,monospace;color:var(--text)}
code span{display:inline-block;max-width:100%}
.ok{border-color:var(--ok);background:var(--ok-ground)}.ok b{color:var(--ok)}
.WRONG{border-color:var(--WRONG);background:var(--WRONG-ground)}.WRONG b{color:var(--WRONG)}
.unknown{border-color:var(--unknown);background:var(--unknown-ground)}
.unknown b{color:var(--unknown)}"""


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
        f"<title>sparkwright verify: {STATES[code(made)]}</title>"
        f"<style>{STYLE}</style></head><body>"
        f'<h1>{html.escape(summary(made))}</h1><p class="at">{at}</p>{"".join(body)}'
        "</body></html>\n"
    )


def _block(check: Check) -> str:
    word = WORDS[check.ok]
    text = f"<p><b>{word}</b>{html.escape(check.name)}: {html.escape(check.seen)}</p>"
    if not check.ok:
        text += f'<p class="more">wanted: {html.escape(check.wanted)}</p>'
        text += f'<p class="more">look closer: {_command(check.look)}</p>'
        text += f'<p class="more">more: {html.escape(check.docs)}</p>'
    return f'<div class="c {word}">{text}</div>'


def _command(text: str) -> str:
    """Words that move to the next line whole: "--limit" would else be broken after a dash."""
    words = (f"<span>{html.escape(word)}</span>" for word in text.split())
    return f"<code>{' '.join(words)}</code>"
