"""Runs pyinfra as a user would, and reads what came of it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright import limits
from sparkwright.errors import SparkwrightError
from sparkwright.paths import PROJECT
from sparkwright.report import FINDINGS

# An interrupted pyinfra releases its locks in this time, or leaves them to the next run (ours).
RELEASE_S = 10


@dataclass(frozen=True)
class Outcome:
    """One pyinfra run.

    + rc: its exit status
    + result: its --json object, or None (it prints none when it aborts)
    + findings: our own lines: kind, host, what
    + log: everything it wrote for people
    """

    rc: int
    result: dict[str, Any] | None
    findings: list[dict[str, str]]
    log: str

    def of(self, kind: str) -> list[dict[str, str]]:
        """Findings of one kind, each once, in order."""
        rows = [row for row in self.findings if row["kind"] == kind]
        return [row for place, row in enumerate(rows) if row not in rows[:place]]


def run(
    words: Sequence[str], quiet: bool, inventory: str = "inventory.py", deploy: str = "deploy.py"
) -> Outcome:
    """
    `pyinfra INVENTORY DEPLOY --json WORDS` in the project's directory.

    + words: further arguments (--dry, -y, --limit NAME)
    + quiet: keep its log from the terminal
    """

    program = Path(sys.executable).with_name("pyinfra")
    argv = [str(program), inventory, deploy, "--json", *words]
    with tempfile.TemporaryDirectory() as place:
        notes = Path(place) / "findings"
        notes.touch(mode=0o600)
        env = {**os.environ, FINDINGS: str(notes), "PYINFRA_PROGRESS": "off"}
        out = Path(place) / "out"
        with out.open("w") as stdout:
            run = subprocess.Popen(  # noqa: S603 - our own program and words
                argv,
                cwd=PROJECT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
            )
        try:
            log = _follow(run, quiet)
        except KeyboardInterrupt:  # pyinfra must not go on converging without us
            _end(run)
            raise
        rc = run.wait()
        found = [json.loads(line) for line in notes.read_text().splitlines()]
        result = _object(out.read_text())
    return Outcome(rc, result, [*found, *_killed(rc)], log)


def _killed(rc: int) -> list[dict[str, str]]:
    """A pyinfra that a signal ended has said nothing of its own about it."""
    if rc >= 0:
        return []
    hint = "run it again with PYTHONFAULTHANDLER=1 in the environment, which shows where"
    what = f"pyinfra: was ended by {signal.Signals(-rc).name}; {hint}"
    return [{"kind": "problem", "host": "fleet", "what": what}]


def _end(run: subprocess.Popen[str]) -> None:
    """Let pyinfra release its locks; one that waits for a long command is ended without."""
    run.terminate()
    try:
        run.wait(RELEASE_S)
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()


def _object(text: str) -> dict[str, Any] | None:
    """pyinfra's JSON object; None when it aborted and printed nothing, or half of one."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def words(options: argparse.Namespace) -> list[str]:
    """The shared options as pyinfra's."""
    given = {"--limit": options.limit, "--exclude": options.exclude, "--data": options.data}
    return [word for option in given for value in given[option] for word in (option, value)]


def check_limits(options: argparse.Namespace) -> None:
    """
    Refuse a --limit or --exclude that names nothing; pyinfra would exit with 0 all the same.

    Raises SparkwrightError.
    """

    if not (options.limit or options.exclude):
        return
    program = str(Path(sys.executable).with_name("pyinfra"))
    argv = [program, options.inventory, "debug-inventory", "--json"]
    done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    if done.returncode != 0:
        raise SparkwrightError(done.stderr.strip())
    limits.refuse(options.limit, options.exclude, _members(json.loads(done.stdout)))


def _members(inventory: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Group name -> host names; pyinfra does not print the group "all"."""
    members = {"all": [host["name"] for host in inventory]}
    for host in inventory:
        for group in host["groups"]:
            members.setdefault(group, []).append(host["name"])
    return members


def _follow(run: subprocess.Popen[str], quiet: bool) -> str:
    """Read the log to its end."""
    lines = []
    assert run.stderr is not None  # noqa: S101 - Popen was given PIPE
    for line in run.stderr:
        lines.append(line)
        if not quiet:
            print(line, end="", file=sys.stderr, flush=True)
    return "".join(lines)


def parser(prog: str, text: str, epilog: str = "") -> argparse.ArgumentParser:
    """The options that check and converge share."""
    options = argparse.ArgumentParser(
        prog=f"sparkwright {prog}",
        description=text,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME",
        help="a spark or a group; may be given more than once",
    )
    options.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="NAME",
        help="all but this spark or group; may be given more than once",
    )
    options.add_argument("--inventory", default="inventory.py", help="another pyinfra inventory")
    options.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting for this run, like --data verify=deep",
    )
    options.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    return options
