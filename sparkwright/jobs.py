"""Long work in a transient unit: it outlives the SSH session, and a second run joins it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkwright.digest import DIGEST_CHARS
from sparkwright.paths import RUN
from sparkwright.resources import Command, quote, write_file
from sparkwright.spread import Item


@dataclass(frozen=True)
class Job:
    """Work that takes minutes.

    + label: short name, part of the unit's name
    + digest: of all inputs
    + stamp: file by which the program vouches for its result; removed before the first command
    + program: our program in /opt/sparkwright/lib; it gets its spec's path as last argument
    + spec: what the program needs to know; `progress` is added
    + user: account that runs it
    + properties: further systemd properties of the transient unit
    + secret: text of a file that only `user` may read; written by the very command that starts
      the work, to `secret_file`, and removed by systemd however the work ends
    """

    label: str
    digest: str
    program: tuple[str, ...]
    spec: Mapping[str, Any]
    stamp: str | None = None
    user: str = "root"
    properties: tuple[str, ...] = ()
    secret: str | None = field(default=None, repr=False)

    @property
    def unit(self) -> str:
        return f"sparkwright-{self.label}-{self.digest}.service"

    @property
    def secret_file(self) -> str:
        """Where the secret lies while the work runs."""
        return f"{self.directory}/secret"

    @property
    def directory(self) -> str:
        """Where the job and the laptop meet: spec, progress, and the mark of completion."""
        return f"{RUN}/{self.label}"


@dataclass(frozen=True)
class JobPlan:
    """What has to happen: nothing when `drift` is empty.

    + job: the long work, or None when only `after` is needed
    + before: commands that come first (fetching the source)
    + after: commands once the work is done (switching a link)
    + notes: things to say that are no drift
    + item: what this is to other machines, which can copy it; None: nothing to them
    + held: whether the machine has the item whole although `job` has something to do about it
    """

    drift: tuple[str, ...] = ()
    job: Job | None = None
    before: tuple[Command, ...] = ()
    after: tuple[Command, ...] = ()
    notes: tuple[str, ...] = ()
    item: Item | None = field(default=None, compare=False)
    held: bool = False


def start_commands(job: Job) -> list[Command]:
    """Commands that start a job, or join the one that runs already.

    A job of the same label with another digest is stopped first: two never run beside each other.
    """
    spec = {**job.spec, "progress": f"{job.directory}/progress"}
    if job.stamp:
        spec |= {"stamp": job.stamp, "digest": job.digest}
    place, done = f"{job.directory}/spec.json", f"{job.directory}/done"
    parts = (job.stamp, done, f"{job.directory}/progress", f"{job.directory}/go")
    old = quote(*[path for path in parts if path])
    words = _unit_words(job, place, done)
    # Few commands: each is a session of SSH and sudo, on every machine at once.
    places = (
        f"install -d -m 0755 -o root -g root {RUN} && "
        f"install -d -m 0755 -o {job.user} -g {job.user} {quote(job.directory)}"
    )
    return [
        Command(f"{places} && {_stop_others(job)}"),
        write_file(place, json.dumps(spec, indent=1).encode(), "root", "root", "0644"),
        _begin(job, f"rm -f {old}", quote(*words)),
    ]


def _begin(job: Job, clean: str, start: str) -> Command:
    """Join the unit that runs, else start it.

    One that is just ending has to be gone first: systemd refuses a second unit of its name.
    """
    unit, stdin = quote(job.unit), None
    if job.secret:
        write = write_file(job.secret_file, job.secret.encode(), job.user, job.user, "0600")
        start = f"({write.shell}) && {{ {start} || {{ rm -f {job.secret_file}; exit 1; }}; }}"
        stdin = write.stdin
    # Who joins reads the secret too, so that the laptop is never left writing to nobody.
    joined = "cat >/dev/null" if stdin else ":"
    begin = (
        f"if systemctl is-active --quiet {unit}; then {joined}; else "
        f"systemctl --quiet stop {unit} 2>/dev/null; {clean}; {start}; fi"
    )
    return Command(begin, stdin=stdin)


def _unit_words(job: Job, place: str, done: str) -> list[str]:
    """The command of the transient unit.

    + place: path of the job's spec; done: path of its mark
    """
    # The mark is the shell's, so that no program can forget it or write it too early.
    mark = f'python3 "$@" && printf %s {job.digest} >{quote(done)}'
    # systemd does this after a stop or a kill too, where a trap of dash does not run.
    clean = [f"--property=ExecStopPost=+/bin/rm -f {job.secret_file}"] if job.secret else []
    return [
        "systemd-run",
        "--quiet",
        f"--unit={job.unit}",
        "--collect",
        f"--property=User={job.user}",
        *[f"--property={p}" for p in job.properties],
        *clean,
        "sh",
        "-c",
        mark,
        "sh",
        *job.program,
        place,
    ]


def _stop_others(job: Job) -> str:
    # Twelve hex digits, not "*": that would match the jobs of a label that only begins alike.
    others = f"sparkwright-{job.label}-{'[0-9a-f]' * DIGEST_CHARS}.service"
    return (
        f"systemctl list-units --plain --no-legend {quote(others)} | cut -d' ' -f1 | "
        f'while read -r unit; do [ "$unit" = {quote(job.unit)} ] || '
        'systemctl stop "$unit"; done'
    )


def describe(progress: Mapping[str, Any]) -> str:
    """One line about a job: phase, percent, rate and time left, as far as they are known."""
    done, total = progress.get("done_bytes"), progress.get("total_bytes")
    parts = [str(progress.get("phase", "starting"))]
    if total:
        parts.append(f"{100 * (done or 0) / total:.0f} %")
        parts.append(f"{(done or 0) / 1e9:.2f} of {total / 1e9:.2f} GB")
    if progress.get("rate_bps"):
        parts.append(f"{progress['rate_bps'] / 1e6:.1f} MB/s")
    if progress.get("eta_s") is not None:
        parts.append(f"{progress['eta_s']:.0f} s left")
    if progress.get("message"):
        parts.append(str(progress["message"]))
    return ", ".join(parts)
