"""Small plots as SVG inside of a page: points, lines, axes with round numbers. Pure.

Own code, for two plots of lines need no plotting library, which would weigh more than the project.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDE, HIGH = 640, 450
LEFT, RIGHT, TOP, BOTTOM = 84, 44, 100, 72
NEAR = 26  # labels that are closer would cover each other
# Apart in lightness as well as in hue, and drawn with marks of their own: legible without colour.
COLOURS = ("#0b5394", "#b45f06", "#6a737d")
TICKS = 5


@dataclass(frozen=True)
class Line:
    """One line.

    + points: (x, y), and a text beside the point; empty for none
    + dashed: for what was not measured: a roof, an earlier run
    """

    name: str
    points: tuple[tuple[float, float, str], ...]
    dashed: bool = False


def ticks(largest: float) -> list[float]:
    """Round numbers from 0 to just above the largest."""
    if not largest > 0:
        return [0.0, 1.0]
    rough = largest / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * number for number in range(math.ceil(largest / step - 1e-9) + 1)]


def plot(title: str, across: str, up: str, lines: Sequence[Line]) -> str:
    """An SVG element.

    + across, up: what the axes show, with units
    """
    points = [point for line in lines for point in line.points]
    xs = ticks(max((x for x, _, _ in points), default=0))
    ys = ticks(max((y for _, y, _ in points), default=0))
    parts = [*_axes(xs, ys), *_titles(title, across, up)]
    key = 8
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        parts += [*_key(line, colour, key), *_line(line, colour, xs[-1], ys[-1])]
        key += 58 + 12 * len(line.name)
    body = "".join(parts)
    return (f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{html.escape(title)}" '
            f'xmlns="http://www.w3.org/2000/svg">{body}</svg>')  # fmt: skip


def _place(x: float, y: float, right: float, top: float) -> tuple[float, float]:
    return (LEFT + x / right * (WIDE - LEFT - RIGHT),
            HIGH - BOTTOM - y / top * (HIGH - TOP - BOTTOM))  # fmt: skip


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(text)}</text>'


def _axes(xs: Sequence[float], ys: Sequence[float]) -> list[str]:
    parts = []
    for value in xs:
        x, y = _place(value, 0, xs[-1], ys[-1])
        parts.append(_text(x, y + 22, f"{value:g}", 'text-anchor="middle"'))
    for value in ys:
        x, y = _place(0, value, xs[-1], ys[-1])
        parts.append(f'<path class="grid" d="M{x:.1f} {y:.1f}H{WIDE - RIGHT}"/>')
        parts.append(_text(x - 8, y + 6, f"{value:g}", 'text-anchor="end"'))
    return parts


def _titles(title: str, across: str, up: str) -> list[str]:
    return [
        _text(8, 22, title, 'font-weight="bold"'),
        _text((WIDE + LEFT) / 2, HIGH - 18, across, 'text-anchor="middle"'),
        _text(8, TOP - 26, up),
    ]


def _key(line: Line, colour: str, x: int) -> list[str]:
    return [f'<path d="M{x} 42h24" stroke="{colour}" stroke-width="2.5"{_dash(line)}/>',
            _text(x + 30, 48, line.name)]  # fmt: skip


def _dash(line: Line) -> str:
    return ' stroke-dasharray="6 5"' if line.dashed else ""


def _line(line: Line, colour: str, right: float, top: float) -> list[str]:
    places = [(*_place(x, y, right, top), text) for x, y, text in line.points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in places)
    stroke = f'fill="none" stroke="{colour}" stroke-width="2.5"{_dash(line)}'
    parts = [f'<path d="{path}" {stroke}/>']
    last = (-1.0 * NEAR, -1.0 * NEAR)
    for x, y, text in places:
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        if text and not line.dashed:
            # One that is too near to the label before stands on the other side of its point.
            below = abs(x - last[0]) < NEAR and abs(y - last[1]) < NEAR
            parts.append(_text(x + (14 if below else 0), y + (22 if below else -10), text,
                               f'text-anchor="middle" fill="{colour}"'))  # fmt: skip
            last = (x, y)
    return parts
