"""One run as one page of HTML that needs nothing else, for a phone as well. Pure."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence

from sparkwright import bench_text
from sparkwright.bench_runs import Run
from sparkwright.bench_svg import Line, plot

STYLE = """body{font:16px/1.45 system-ui,sans-serif;margin:1rem auto;max-width:46rem;padding:0 1rem;
color:#1a1a1a;background:#fff}h1{font-size:1.4rem;overflow-wrap:anywhere}p{margin:.4rem 0}
svg{width:100%;height:auto;margin:.6rem 0;font:17px system-ui,sans-serif}.grid{stroke:#ddd}
pre{overflow-x:auto;font-size:.8rem;background:#f4f6f4;padding:.5rem;margin:.3rem 0}
.bad{border-left:.4rem solid #b71c1c;background:#fdecea;padding:.3rem .7rem}
@media(max-width:32rem){svg{font-size:21px}pre{font-size:.62rem}}"""


def page(run: Run, earlier: Sequence[Run] = ()) -> str:
    """
    The page.

    + earlier: runs of the same recipe that are drawn beside it, at most one
    """
    head = f"{run.recipe} on {run.machine}" if run.machine else run.recipe
    plots = [text for text in (curve(run, earlier), deep(run, earlier)) if text]
    word = "a request failed" if run.failed else "below the gate" if run.slow else ""
    bad = f'<p class="bad">{html.escape(word)}: see below</p>' if word else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>sparkwright bench</title><style>{STYLE}</style></head><body>"
        f"<h1>{html.escape(head)}</h1><p>{run.at}, asked from {html.escape(run.place)}</p>"
        f"{bad}{''.join(plots)}{body(bench_text.lines(run))}</body></html>\n"
    )


def body(lines: Sequence[str]) -> str:
    """Prose as paragraphs, that wrap; tables as they are."""
    parts = []
    for table, some in itertools.groupby(lines, lambda line: line.startswith("  ")):
        texts = [html.escape(line) for line in some]
        block = "\n".join(texts)
        parts.append(f"<pre>{block}</pre>" if table else "".join(f"<p>{t}</p>" for t in texts))
    return "".join(parts)


def curve(run: Run, earlier: Sequence[Run]) -> str:
    """Throughput of all against the time that each waits for a token; empty without figures."""
    lines = [Line(name, points) for name, points in
             ((_name(one, run), _curve(one, one is run)) for one in (run, *earlier))
             if points]  # fmt: skip
    if not lines:
        return ""
    across = "TPOT p50, ms: what each user waits for a token"
    return plot("Throughput against latency; a number is users", across, "tok/s of all", lines)


def _curve(run: Run, labelled: bool) -> tuple[tuple[float, float, str], ...]:
    """Labels of an earlier run would cover those of this one."""
    return tuple((level.tpot[0] * 1000, level.throughput, str(level.users) if labelled else "")
                 for level in run.levels if level.tpot)  # fmt: skip


def deep(run: Run, earlier: Sequence[Run]) -> str:
    """Decoding of one user against the length of the prompt; empty without figures."""
    lines = []
    for one in (run, *earlier):
        found = tuple((float(d.tokens), d.decode, f"{d.decode:.0f}" if one is run else "")
                      for d in one.depths if d.decode)  # fmt: skip
        if found:
            lines.append(Line(_name(one, run), found))
    roof = tuple((float(d.tokens), d.roof, "") for d in run.depths if d.roof)
    shares = [d.share for d in run.depths if d.share]
    if roof and lines and max(shares, default=0) > 0.05:
        lines.append(Line("roof", roof, dashed=True))
    if not lines:
        return ""
    return plot("Decoding of one user against depth", "tokens in the context", "tok/s", lines)


def _name(one: Run, run: Run) -> str:
    return "this run" if one is run else f"run {one.id[:13]}"
