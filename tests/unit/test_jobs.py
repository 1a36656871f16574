"""Long work in a transient unit: the commands run for real, with a systemd-run that only notes."""

from __future__ import annotations

import base64
import dataclasses
import getpass
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkwright import jobs
from sparkwright.jobs import Job, describe, start_commands

DIGEST = "0123456789ab"
JOB = Job(
    label="weights-a",
    digest=DIGEST,
    program=("/opt/sparkwright/lib/weights.py", "fetch"),
    spec={"dir": "/srv/x"},
    stamp="/srv/x/.stamp",
    user="llm",
    properties=("Nice=5",),
)


def text(job: Job) -> str:
    return "\n".join(command.shell for command in start_commands(job))


def test_the_token_is_in_no_command_and_no_repr() -> None:
    job = dataclasses.replace(JOB, secret="hf_TOPSECRET")
    assert "hf_TOPSECRET" not in text(job)
    assert "hf_TOPSECRET" not in repr(job)
    assert job.secret_file == "/run/sparkwright/weights-a/secret"
    writes = [c for c in start_commands(job) if f'mv -fT "$t" {job.secret_file}' in c.shell]
    assert len(writes) == 1
    assert "chown llm:llm" in writes[0].shell
    assert "chmod 0600" in writes[0].shell
    # Written by the command that starts the work: a laptop that dies before it leaves no token.
    assert start_commands(job)[-1] == writes[0]
    assert "systemd-run" in writes[0].shell


def test_the_unit_says_who_runs_what() -> None:
    begin = start_commands(JOB)[-1].shell
    assert f"--unit=sparkwright-weights-a-{DIGEST}.service" in begin
    assert "--property=User=llm --property=Nice=5" in begin
    assert "--collect" in begin


def test_the_spec_holds_progress_digest_and_stamp() -> None:
    write = next(c for c in start_commands(JOB) if "spec.json" in c.shell and c.stdin)
    assert json.loads(base64.b64decode(write.stdin or "")) == {
        "dir": "/srv/x",
        "progress": "/run/sparkwright/weights-a/progress",
        "digest": DIGEST,
        "stamp": "/srv/x/.stamp",
    }


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)"])
def test_the_token_is_there_for_the_work_and_gone_after_it(bench: Bench, end: str) -> None:
    seen, place = bench.root / "seen", bench.root / "run/weights-a/secret"
    body = f"""import os
stat = os.stat({str(place)!r})
open({str(seen)!r}, "w").write(f"{{stat.st_mode & 0o777:o}} {{open({str(place)!r}).read()}}")
{end}
"""
    job = bench.job(body, secret="hf_TOPSECRET")
    if end:
        with pytest.raises(subprocess.CalledProcessError):
            bench.start(job)
    else:
        bench.start(job)
    assert seen.read_text() == "600 hf_TOPSECRET"
    assert not place.exists()
    assert "hf_TOPSECRET" not in (bench.root / "run/weights-a/spec.json").read_text()


class Bench:
    """A directory instead of /run, a systemctl that answers from it, a systemd-run that runs."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jobs, "RUN", f"{root}/run")
        self.root = root
        tools = root / "fake_tools"
        tools.mkdir()
        self.active, self.log = root / "active", root / "log"
        self.active.touch()
        self.log.touch()
        scripts = {
            "systemctl": f"""echo systemctl "$@" >>{self.log}
case $1 in
is-active) grep -qx "$3" {self.active} ;;
list-units) python3 -c 'import fnmatch,sys
for n in open(sys.argv[1]).read().split():
    if fnmatch.fnmatchcase(n, sys.argv[2]): print(n, "loaded active running")' {self.active} "$4" ;;
esac""",
            "systemd-run": f"""echo systemd-run >>{self.log}
[ ! -e {root}/refuse ] || exit 1
post=:
while :; do case $1 in
--property=ExecStopPost=+*) post=${{1#*=*=+}}; shift ;;
--*) shift ;;
*) break ;;
esac; done
"$@"; rc=$?; $post; exit $rc""",
        }
        for name, body in scripts.items():
            (tools / name).write_text(f"#!/bin/sh\n{body}\n")
            (tools / name).chmod(0o755)
        self.path = f"{tools}:{os.environ['PATH']}"

    def job(self, body: str, **changes: Any) -> Job:
        """A job whose program is this Python text."""
        program = self.root / "program.py"
        program.write_text(body)
        plain = dataclasses.replace(
            JOB,
            program=(str(program), "word"),
            user=getpass.getuser(),
            stamp=f"{self.root}/stamp",
        )
        return dataclasses.replace(plain, **changes)

    def start(self, job: Job) -> None:
        for command in start_commands(job):
            subprocess.run(
                ["sh", "-c", command.shell.replace("-o root -g root ", "")],
                input=command.stdin,
                text=True,
                check=True,
                env={**os.environ, "PATH": self.path},
            )

    def mark(self) -> str:
        place = self.root / "run/weights-a/done"
        return place.read_text() if place.exists() else ""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_success_leaves_the_mark(bench: Bench) -> None:
    body = f"import sys,json; json.dump(sys.argv[1:], open({str(bench.root / 'args')!r}, 'w'))"
    bench.start(bench.job(body))
    assert bench.mark() == DIGEST
    assert json.loads((bench.root / "args").read_text()) == [
        "word",
        f"{bench.root}/run/weights-a/spec.json",
    ]


def test_failure_leaves_neither_mark_nor_stamp(bench: Bench) -> None:
    """The old mark and stamp are gone before the work begins, and failure writes none."""
    bench.start(bench.job("pass"))
    (bench.root / "stamp").write_text(DIGEST)
    (bench.root / "run/weights-a/progress").write_text('{"phase": "old"}')
    with pytest.raises(subprocess.CalledProcessError):
        bench.start(bench.job("raise SystemExit(3)"))
    assert bench.mark() == ""
    assert not (bench.root / "stamp").exists()
    assert not (bench.root / "run/weights-a/progress").exists()


def test_a_second_run_joins_the_one_that_works(bench: Bench) -> None:
    bench.active.write_text(f"sparkwright-weights-a-{DIGEST}.service\n")
    (bench.root / "stamp").write_text("in the making")
    bench.start(bench.job("raise SystemExit(3)"))
    assert "systemd-run" not in bench.log.read_text()
    assert "systemctl stop" not in bench.log.read_text()
    assert (bench.root / "stamp").exists()


def test_who_joins_leaves_no_token_and_reads_it_all(bench: Bench) -> None:
    bench.active.write_text(f"sparkwright-weights-a-{DIGEST}.service\n")
    bench.start(bench.job("raise SystemExit(3)", secret="hf_TOPSECRET" * 9000))
    assert "systemd-run" not in bench.log.read_text()
    assert not (bench.root / "run/weights-a/secret").exists()


def test_a_unit_that_cannot_be_started_leaves_no_token(bench: Bench) -> None:
    (bench.root / "refuse").touch()
    with pytest.raises(subprocess.CalledProcessError):
        bench.start(bench.job("pass", secret="hf_TOPSECRET"))
    assert not (bench.root / "run/weights-a/secret").exists()


def test_a_unit_that_is_just_ending_is_waited_for(bench: Bench) -> None:
    bench.start(bench.job("pass"))
    log = bench.log.read_text()
    unit = f"sparkwright-weights-a-{DIGEST}.service"
    assert log.index(f"systemctl --quiet stop {unit}") < log.index("systemd-run")


def test_older_work_of_the_same_label_is_stopped_and_no_other(bench: Bench) -> None:
    bench.active.write_text(
        "sparkwright-weights-a-ba9876543210.service\n"
        "sparkwright-weights-a-120b-ba9876543210.service\n"
        "sparkwright-weights-ab-ba9876543210.service\n"
        "other.service\n"
    )
    bench.start(bench.job("pass"))
    stops = re.findall(r"systemctl stop (\S+)", bench.log.read_text())
    assert stops == ["sparkwright-weights-a-ba9876543210.service"]


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        ({}, "starting"),
        ({"phase": "compiling", "message": "step 1 of 2"}, "compiling, step 1 of 2"),
        (
            {"phase": "fetching", "done_bytes": 5e9, "total_bytes": 63e9, "rate_bps": 1e8,
             "eta_s": 580.4},
            "fetching, 8 %, 5.00 of 63.00 GB, 100.0 MB/s, 580 s left",
        ),
        ({"phase": "fetching", "done_bytes": None, "total_bytes": 10}, "fetching, 0 %, "
         "0.00 of 0.00 GB"),
        ({"phase": "done", "total_bytes": 0, "eta_s": 0}, "done, 0 s left"),
    ],
)  # fmt: skip
def test_describe(progress: dict[str, Any], line: str) -> None:
    assert describe(progress) == line
