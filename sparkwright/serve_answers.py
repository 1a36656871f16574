"""Says what came of a question, and why something was refused, for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyinfra import logger

from sparkwright import report
from sparkwright.endpoint import ask_line
from sparkwright.facts import ask
from sparkwright.paths import LIB
from sparkwright.serve_watch import explain
from sparkwright.site import Planned


def refuse(state: Any, host: Any, wrong: Sequence[str]) -> bool:
    """Say why a unit was left as it is, and fail."""
    for line in wrong:
        report.record("problem", host, line)
        logger.error(f"{host.print_prefix}{line}")
    return False


def judge(state: Any, host: Any, item: Planned, place: str) -> bool:
    """Run the question on the machine and print what came of it."""
    state_ = ask(host, [{"kind": "run", "argv": ["python3", f"{LIB}/ask.py", place]}])[0]
    try:
        found = json.loads(state_.get("out", ""))
    except ValueError:
        explain(host, f"{item.unit}.service", f"asking failed: {state_.get('err', '')[-300:]}")
        return False
    if found["wrong"]:
        explain(host, f"{item.unit}.service", "not accepted: " + "; ".join(found["wrong"]))
        return False
    role = f" (system message in role: {found['role']})" if found.get("role") else ""
    report.record("accepted", host, f"{item.unit} at port {item.port}{role}")
    report.record("endpoint", host, ask_line(item, host.data.dict()))
    logger.info(
        f"{host.print_prefix}{item.unit}: answered {found['content'].strip()[:60]!r}; ready after "
        f"{found['ready_s']} s, first token after {found['ttft_s']} s, "
        f"whole answer {found['total_s']} s{role}"
    )
    return True
