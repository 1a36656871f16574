"""`sparkwright lint` on our own units, before a converge writes or starts one. Pure."""

from __future__ import annotations

from sparkwright.engine_facts import EngineFacts
from sparkwright.units import Service, render_unit


def linted(service: Service, facts: EngineFacts | None) -> list[str]:
    """What the linter would stop, judged for the build that is installed; a phrase each.

    + facts: of that build, None when they are not known
    """
    # Late, since a parser of shell comes with it: a run with nothing to do needs none.
    from sparkwright.lint.findings import Verdict
    from sparkwright.lint.run import lint_unit

    found = lint_unit(render_unit(service), facts, f"{service.name}.service")
    return [f"{item.message}; {item.fix}" for item in found if item.verdict is Verdict.BLOCK]
