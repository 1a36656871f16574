"""Runs preflight on every machine at once, before any operation is prepared."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from typing import Any

import gevent
from pyinfra import logger
from pyinfra.api import DeployError, FactBase
from pyinfra.api.facts import get_fact
from pyinfra.context import ctx_host

from sparkwright import (
    per_run,
    preflight,
    preflight_docker,
    preflight_fabric,
    preflight_seen,
    report,
    writer,
)
from sparkwright.errors import Problem, Problems, SparkwrightError
from sparkwright.facts import ask_quietly, converse
from sparkwright.paths import PROJECT
from sparkwright.per_run import Once
from sparkwright.resources import quote
from sparkwright.rollout_run import in_order
from sparkwright.site import lock_of, planned, recipes_of

# Asked before the first sudo: with a password, pyinfra runs its helper there and would else ask a
# terminal that is not there.
TMP = "/tmp"  # noqa: S108 - looked at, never written
NOEXEC = f"import os; print('noexec' * bool(os.statvfs('{TMP}').f_flag & os.ST_NOEXEC))"


class Reach(FactBase[list[str]]):
    """Asked without sudo: is python3 there, may /tmp run programs, does sudo want a password?"""

    def command(self, password: bool) -> str:
        sudo = "true" if password else "sudo -n true"
        return (
            f"command -v python3 >/dev/null && echo python3; python3 -c {quote(NOEXEC)}; "
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

    def run() -> str:
        in_order(state)
        # pyinfra asks inspect for the place of each operation of each machine, which looks for the
        # deploy file in all modules, in vain: a quarter of its time with 32 (8.3 s, not 10.9).
        inspect.modulesbyfile[str(PROJECT / "deploy.py")] = __name__
        try:
            return _report(state, artifact_problems)
        except Exception as error:  # an exception of another kind would say less
            return f"preflight: {type(error).__name__}: {error}"

    if text := per_run.of(state, _made).get(run):
        raise DeployError(text)


def _made(state: Any) -> Once[str]:
    return Once()


def _report(state: Any, artifact_problems: Any) -> str:
    hosts = sorted(state.inventory.get_active_hosts(), key=lambda h: h.name)
    together = preflight_fabric.Together()
    jobs = [gevent.spawn(_guarded, state, host, artifact_problems, together) for host in hosts]
    gevent.joinall(jobs)
    found = [(host, job.value or ()) for host, job in zip(hosts, jobs, strict=True)]
    found.append(("fleet", together.problems()))
    for host, lines in found:
        for line in lines:
            report.record("problem", host, line)
    for line in together.notes():
        report.record("note", "fleet", line)
        logger.info(line)
    unique = list(dict.fromkeys(line for _, lines in found for line in lines))
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


def _guarded(
    state: Any, host: Any, artifact_problems: Any, together: preflight_fabric.Together
) -> list[str]:
    try:
        with ctx_host.use(host):
            found = _problems(state, host, artifact_problems, together)
    except SparkwrightError as error:
        found = str(error).splitlines()
    except Exception as error:  # one machine's trouble must not hide the others' problems
        found = [f"{host.name}: {type(error).__name__}: {error}"]
    return found


def _problems(
    state: Any, host: Any, artifact_problems: Any, together: preflight_fabric.Together
) -> list[str]:
    data = data_of(host)
    recipes_of(data)
    fleet = Problems()
    items = planned(data, fleet)
    lines = [
        *artifact_problems(data),
        *[str(p) if ".yaml" in p.where else str(_at(host, p)) for p in fleet],
    ]
    if barred := _barred(state, host, data):
        return [*lines, f"{host.name}: {barred}"]
    before = time.time()
    asked, docker = preflight_seen.probes(data, items), preflight_docker.probes(items)
    network, lock = preflight_fabric.probes(data), writer.probe()
    states = ask_quietly(state, host, [lock, *network, *asked, *docker])
    if states is None:
        return [*lines, f"{host.name}: sudo: did not run as root; is the password right?"]
    middle = (before + time.time()) / 2
    held, *states = states
    linked, states = states[: len(network)], states[len(network) :]
    seen, rest = preflight_seen.seen(states[: len(asked)], middle), states[len(asked) :]
    own = preflight.check(data, items, seen)
    preflight_fabric.check(data, linked, own)
    together.add(host.name, data, linked)
    if note := preflight_fabric.local_name(data):
        report.note(host, note)
    images = preflight_docker.needed(items, lock_of(data))
    preflight_docker.check(data, images, items, seen, rest, own)
    lines += _locked(state, host, writer.at_work(held.get("text", ""), seen.host["clock"]))
    return [*lines, *[str(_at(host, problem)) for problem in own]]


def _locked(state: Any, host: Any, by: str) -> list[str]:
    if by and state.check_for_changes:  # no -y: the lock itself decides when it is taken
        report.note(host, f"{host.name}: {by}")
    return [f"{host.name}: {by}"] if by and not state.check_for_changes else []


def _barred(state: Any, host: Any, data: Mapping[str, Any]) -> str:
    """Why the machine cannot be asked at all, or nothing."""
    password = bool(data.get("_sudo_password"))
    if not password and converse(host, []) is not None:
        return ""  # it answers, so there is python3, and sudo asks nothing
    options = {"password": password, "_sudo": False}
    reach = get_fact(state, host, Reach, kwargs=options, apply_failed_hosts=False) or []
    if "python3" not in reach:
        return "python3: not found; install it: sudo apt-get install python3"
    if options["password"] and "noexec" in reach:
        return (
            f"{TMP}: is mounted noexec; sudo with a password runs a helper there; mount it without "
            "noexec, or use passwordless sudo"
        )
    if "sudo" not in reach and "root" not in reach:
        return (
            "sudo: asks for a password and none is set; set sudo.password_env in sparks.yaml and "
            "export that variable, or allow passwordless sudo"
        )
    return ""


def _at(host: Any, problem: Problem) -> Problem:
    return Problem(f"{host.name}: {problem.where}", problem.what, problem.hint)
