"""Runs preflight on every machine at once, before any operation is prepared."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import gevent
from gevent.event import AsyncResult
from pyinfra.api import DeployError, FactBase
from pyinfra.api.facts import get_fact
from pyinfra.context import ctx_host

from sparkwright import preflight, preflight_seen, report
from sparkwright.errors import Problem, Problems, SparkwrightError
from sparkwright.facts import Machine
from sparkwright.site import planned, recipes_of

_RESULTS: dict[int, AsyncResult[str]] = {}


class Reach(FactBase[list[str]]):
    """Asked without sudo: is python3 there, and does sudo work without a password?"""

    def command(self, password: bool) -> str:
        sudo = "true" if password else "sudo -n true"
        return (
            f"command -v python3 >/dev/null && echo python3; "
            f'[ "$(id -u)" = 0 ] && echo root; {sudo} >/dev/null 2>&1 && echo sudo; true'
        )

    def process(self, output: list[str]) -> list[str]:
        return [line.strip() for line in output]


def data_of(host: Any) -> Mapping[str, Any]:
    """A machine's data as a plain map."""
    data: Mapping[str, Any] = host.data.dict()
    return data


def check_fleet(state: Any, artifact_problems: Any) -> None:
    """
    Check all machines of this run, once, whichever greenlet comes first; the others wait.

    + state: pyinfra's state
    + artifact_problems: function from a machine's data to what the lock lacks, a line each

    Raises DeployError with every problem of every machine.
    """

    result = _RESULTS.get(id(state))
    if result is None:
        result = _RESULTS[id(state)] = AsyncResult()
        try:
            result.set(_report(state, artifact_problems))
        except Exception as error:  # the waiting greenlets must not wait for ever
            result.set(f"preflight: {type(error).__name__}: {error}")
    text = result.get()
    if text:
        raise DeployError(text)


def _report(state: Any, artifact_problems: Any) -> str:
    hosts = sorted(state.inventory.get_active_hosts(), key=lambda h: h.name)
    jobs = [gevent.spawn(_guarded, state, host, artifact_problems) for host in hosts]
    gevent.joinall(jobs)
    lines = [line for job in jobs for line in job.value or ()]
    unique = list(dict.fromkeys(lines))
    if not unique:
        return ""
    names = ", ".join(host.name for host in hosts)
    return "\n".join(
        [
            f"preflight found {len(unique)} problem(s):",
            *[f"  {line}" for line in unique],
            f"Nothing was changed on {names}.",
        ]
    )


def _guarded(state: Any, host: Any, artifact_problems: Any) -> list[str]:
    try:
        with ctx_host.use(host):
            found = _problems(state, host, artifact_problems)
    except SparkwrightError as error:
        found = str(error).splitlines()
    except Exception as error:  # one machine's trouble must not hide the others' problems
        found = [f"{host.name}: {type(error).__name__}: {error}"]
    for line in found:
        report.record("problem", host, line)
    return found


def _problems(state: Any, host: Any, artifact_problems: Any) -> list[str]:
    data = data_of(host)
    recipes_of(data)
    fleet = Problems()
    items = planned(data, fleet)
    lines = [
        *artifact_problems(data),
        *[str(p) if ".yaml" in p.where else str(_at(host, p)) for p in fleet],
    ]
    reach = (
        get_fact(
            state,
            host,
            Reach,
            kwargs={"password": bool(data.get("_sudo_password")), "_sudo": False},
            apply_failed_hosts=False,
        )
        or []
    )
    if "python3" not in reach:
        return [
            *lines,
            f"{host.name}: python3: not found; install it: sudo apt-get install python3",
        ]
    if "sudo" not in reach and "root" not in reach:
        return [
            *lines,
            f"{host.name}: sudo: asks for a password and none is set; set "
            "sudo.password_env in sparks.yaml and export that variable, or allow "
            "passwordless sudo",
        ]
    before = time.time()
    states = _ask(state, host, preflight_seen.probes(data, items))
    if states is None:
        return [*lines, f"{host.name}: sudo: did not run as root; is the password right?"]
    middle = (before + time.time()) / 2
    own = preflight.check(data, items, preflight_seen.seen(states, middle))
    return [*lines, *[str(_at(host, problem)) for problem in own]]


def _at(host: Any, problem: Problem) -> Problem:
    return Problem(f"{host.name}: {problem.where}", problem.what, problem.hint)


def _ask(state: Any, host: Any, specs: list[dict[str, Any]]) -> Any:
    import json

    return get_fact(
        state, host, Machine, kwargs={"specs": json.dumps(specs)}, apply_failed_hosts=False
    )
