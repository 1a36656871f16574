"""The lab by hand: `python -m tests.lab up | down | status | clean-cache`."""

from __future__ import annotations

import argparse
import shlex
import sys

from . import runs
from .host import PROJECT, LabError, cache_dir, locked, missing, say
from .lab import leave_up
from .records import Record, clean_abandoned, remove

WOULD = {
    "up": "build a Debian root in {cache}, make a bridge, and boot {machines} machines on it",
    "down": "end the lab's processes and remove its mounts, interfaces and files",
    "status": "list the labs that are up",
    "clean-cache": "remove {cache}",
}


def _up(options: argparse.Namespace) -> None:
    lab = leave_up(options.machines, options.name)
    names = [machine.name for machine in lab.machines]
    serve = {name: ["tiny-gpt-oss-llamacpp"] for name in names}
    fleet = lab.write_fleet(lab.home / "sparks.yaml", serve)
    for machine in lab.machines:
        print(shlex.join(machine.ssh_argv()))
    print(f"upstream: {lab.upstream.url}   log: {lab.upstream.home / 'access.jsonl'}")
    print(f"SPARKS_FILE={fleet} .venv/bin/pyinfra inventory.py deploy.py")
    print(f"take it down: python -m tests.lab down --name {lab.run_id}")


def _down(options: argparse.Namespace) -> None:
    with locked(runs.LOCK):
        clean_abandoned(cache_dir())
        chosen = runs.find_runs(options.name)
        if not options.name:
            # Labs of other checkouts and of running tests are somebody's; only a name ends those.
            mine = str(PROJECT)
            chosen = [found for found in chosen if not found.owner and found.checkout == mine]
        for record in chosen:
            remove(record)
            say(f"lab {record.run_id} is gone")
    if not chosen:
        say("no lab of this checkout is up that was left by hand")


def _describe(record: Record) -> str:
    kind = f"owner pid {record.owner[0]}" if record.owner else "left up by hand"
    return f"{record.run_id}  {record.subnet}  {kind}  {record.checkout}"


def _status(options: argparse.Namespace) -> None:
    for record in runs.find_runs(options.name):
        print(_describe(record))


def _clean_cache(options: argparse.Namespace) -> None:
    print(f"removed {runs.clean_cache()}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("up", _up), ("down", _down), ("status", _status)):
        command = commands.add_parser(
            name, help=WOULD[name].format(cache="the cache", machines="N")
        )
        command.add_argument("--name", help="name of the lab")
        command.set_defaults(run=run, machines=0)
    commands.choices["up"].add_argument("--machines", type=int, default=2)
    commands.add_parser("clean-cache", help="remove the cache").set_defaults(run=_clean_cache)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Do what the arguments say; 1 with a reason when it cannot be done here."""
    options = _parser().parse_args(argv)
    reasons = missing()
    if reasons:
        would = WOULD[options.command].format(
            cache="the cache folder", machines=getattr(options, "machines", 0)
        )
        print("\n".join([*reasons, f"it would {would}"]), file=sys.stderr)
        return 1
    try:
        options.run(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; everything was taken down", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
