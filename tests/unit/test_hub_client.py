"""The Hub client's environment: what is missing for it, and the program that makes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkwright.hub_client import PROOF, plan, probes
from sparkwright.paths import FILES
from sparkwright.resources import State
from tests.unit.machine_case import HASH, program

ROOT = "/opt/sparkwright/hub-client"
VENV = program("make_venv")


def machine(
    current: str | None = None,
    stamp: str | None = None,
    check: str = '{"wrong": []}',
    python: str = "Python 3.12.3",
) -> list[State]:
    return [
        {"rc": 0, "out": f"{python}\n"},
        {"type": "link", "target": current} if current else {"type": "missing"},
        {"type": "file", "text": stamp} if stamp else {"type": "missing"},
        {"rc": 0, "out": check},
    ]


def name_of(**answers: str) -> str:
    job = plan("/opt/sparkwright", HASH, machine(**answers)).job
    assert job is not None
    return job.digest


NAME = name_of()
NONE = f"{ROOT}/current: no environment {NAME}"


def test_a_finished_machine_needs_nothing() -> None:
    assert plan("/opt/sparkwright", HASH, machine(NAME, f"{NAME}\n")).drift == ()


@pytest.mark.parametrize(
    ("states", "drift"),
    [
        (machine(), [NONE]),
        (machine("other", NAME), [NONE]),
        (machine(NAME), [NONE]),
        (machine(NAME, "other"), [NONE]),
        (machine(NAME, NAME, '{"wrong": ["/x: missing"]}'), ["/x: missing"]),
        (machine(NAME, NAME, json.dumps({"wrong": list("abcdefg")})),
         [*"abcde", "Hub client: 2 more files differ"]),
        (machine(NAME, NAME, ""), ["Hub client: its files could not be looked at"]),
    ],
)  # fmt: skip
def test_each_damage_makes_it_anew(states: list[State], drift: list[str]) -> None:
    found = plan("/opt/sparkwright", HASH, states)
    assert found.drift == tuple(drift)
    assert found.job is not None
    assert found.job.stamp == f"{ROOT}/{NAME}/.stamp"
    assert found.job.spec["dest"] == f"{ROOT}/{NAME}"


def test_other_requirements_or_another_python_give_another_environment() -> None:
    other = plan("/opt/sparkwright", "cd" * 32, machine(NAME, NAME)).job
    assert other is not None
    assert other.digest != NAME
    assert name_of(python="Python 3.13.1") != NAME


def test_answers_that_failed_mean_that_nothing_is_there() -> None:
    assert plan("/opt/sparkwright", HASH, [{"error": "OSError"}] * 4).job is not None


def test_the_proof_and_the_requirements_name_the_same_version() -> None:
    text = (FILES / "opt/sparkwright/requirements/hub-client.txt").read_text()
    version = PROOF.split("'")[1]
    assert f"huggingface-hub=={version}" in text.lower().replace("_", "-")


def test_prune_removes_all_but_the_current(tmp_path: Path) -> None:
    root = tmp_path / "a prefix/hub-client"
    job = plan(f"{tmp_path}/a prefix", HASH, machine())
    assert job.job is not None
    for name in (job.job.digest, "old", "older"):
        (root / name).mkdir(parents=True)
    (root / "current").symlink_to("old")
    for command in (*job.before, *job.after):
        subprocess.run(["sh", "-c", command.shell], check=True)
    assert sorted(path.name for path in root.iterdir()) == sorted(["current", job.job.digest])
    assert str((root / "current").readlink()) == job.job.digest


def test_the_current_environment_is_looked_at_without_running_it() -> None:
    words = ["/opt/sparkwright/lib/make_venv.py", "check", "/p/hub-client/current"]
    assert probes("/p")[3] == {"kind": "program", "argv": words}


# --- files/opt/sparkwright/lib/make_venv.py ----------------------------------------------------


def make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requirements: str, proof: str, fake: str = ""
) -> tuple[int, dict[str, str], Path]:
    """Run the program; no package is named, so nothing is asked of any registry.

    + fake: shell text that the `python3` on PATH runs first
    """
    tools = tmp_path / "fake_tools"
    tools.mkdir(exist_ok=True)
    python = tools / "python3"
    python.write_text(f'#!/bin/sh\n{fake}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    (tmp_path / "requirements.txt").write_text(requirements)
    dest = tmp_path / "d1gest"
    spec = {
        "requirements": f"{tmp_path}/requirements.txt",
        "dest": str(dest),
        "proof": proof,
        "stamp": f"{dest}/.stamp",
        "digest": "d1gest",
        "progress": f"{tmp_path}/progress",
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    status = VENV.main([f"{tmp_path}/spec.json"])
    return status, json.loads((tmp_path / "progress").read_text()), dest


def test_an_environment_is_stamped_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d1gest").mkdir()
    (tmp_path / "d1gest/leftover").touch()
    status, progress, dest = make(tmp_path, monkeypatch, "", "import sys")
    assert (status, progress["phase"]) == (0, "done")
    assert (dest / ".stamp").read_text() == "d1gest"
    assert not (dest / "leftover").exists()
    assert (dest / "bin/python").exists()


def checked(place: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert VENV.main(["check", str(place)]) == 0
    wrong: list[str] = json.loads(capsys.readouterr().out)["wrong"]
    return wrong


def test_a_damaged_file_is_found_through_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(tmp_path, monkeypatch, "", "1", BARE)[0] == 0
    link, python = tmp_path / "current", tmp_path / "current/bin/python"
    link.symlink_to("d1gest")
    (link / "bin/__pycache__").mkdir()
    (link / "bin/__pycache__/x.pyc").touch()
    assert checked(link, capsys) == []
    info = python.stat()
    python.write_bytes(python.read_bytes()[:-1])
    os.utime(python, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert checked(link, capsys) == [f"{python}: changed"]
    python.unlink()
    assert checked(link, capsys) == [f"{python}: missing"]
    (link / ".files.json").unlink()
    record = f"{link}/.files.json: does not vouch for this environment"
    assert checked(link, capsys) == [record]


# Makes an environment without pip in no time: its python does not run pip, and says so.
BARE = """if [ "$2" = venv ]; then
    mkdir -p "$3/bin"
    printf '#!/bin/sh\\n[ "$2" != pip ] || exit 0\\nexec {} "$@"\\n' >"$3/bin/python"
    chmod 755 "$3/bin/python"
    exit
fi""".replace("{}", sys.executable)


@pytest.mark.parametrize(
    ("requirements", "proof", "fake", "message"),
    [
        ("", "raise SystemExit('wrong version')", BARE, "python: wrong version"),
        ("", "import no_such_module", BARE,
         "python: ModuleNotFoundError: No module named 'no_such_module'"),
        ("", "1", "echo 'no ensurepip' >&2; exit 1", "python3: no ensurepip"),
        # A requirement without a hash is refused before any index is asked.
        ("./nothing-here", "1", "", "python: "),
    ],
)  # fmt: skip
def test_a_failure_leaves_no_stamp(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    requirements: str,
    proof: str,
    fake: str,
    message: str,
) -> None:
    status, progress, dest = make(tmp_path, monkeypatch, requirements, proof, fake)
    assert (status, progress["phase"]) == (1, "failed")
    assert progress["message"].startswith(message)
    assert not (dest / ".stamp").exists()
