"""Half-written files: a dead one is found and removed, a living writer's is not."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from sparkwright.leftovers import NoLeftovers
from sparkwright.resources import write_file
from tests.unit.machine_case import program

PROBE = program("probe")


def states(resource: NoLeftovers) -> list[dict[str, object]]:
    return [PROBE.answer(spec) for spec in resource.probes()]


def test_dead_files_are_named_and_removed(tmp_path: Path) -> None:
    place = tmp_path / "a b"
    (place / "deeper").mkdir(parents=True)
    dead = [place / ".sparkwright.abc", place / "deeper/.sparkwright.def"]
    others = [place / ".sparkwright-stat.json", place / "unit.service"]
    for path in [*dead, *others]:
        path.write_text("x")
    wanted = NoLeftovers((str(place), str(tmp_path / "absent")))
    seen = states(wanted)
    assert wanted.drift(seen) == [f"{path}: left by a run that died" for path in dead]
    for command in wanted.fix(seen):
        subprocess.run(["sh", "-c", command.shell], check=True)
    assert wanted.drift(states(wanted)) == []
    assert all(path.exists() for path in others)


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    """The writer of resources.write_file holds its lock while it waits for the content."""
    wanted = NoLeftovers((str(tmp_path),))
    shell = write_file(f"{tmp_path}/f", b"new", "root", "root", "0644").shell
    hold = shell.replace("flock 3; ", "flock 3; echo held; ", 1)
    writer = subprocess.Popen(
        ["sh", "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "held\n"
    assert list(tmp_path.glob(".sparkwright.*"))
    assert wanted.drift(states(wanted)) == []
    writer.kill()  # no trap runs; what it had started ends with its input
    writer.communicate()
    deadline = time.monotonic() + 30
    while not wanted.drift(states(wanted)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(wanted.drift(states(wanted))) == 1
