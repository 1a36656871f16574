"""A secret as an environment file: the machine copies it, and no command line shows it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sparkwright.resources import State
from sparkwright.secret_env import SecretEnv

GOOD: State = {"type": "file", "owner": "root", "group": "root", "mode": "0600"}


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecretEnv:
    """In a directory of our own; only root could give files away, so chown is a stand-in."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "chown").write_text("#!/bin/sh\n")
    (tools / "chown").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    (tmp_path / "api-key").write_text("Top/Secret+1\n")
    return SecretEnv(f"{tmp_path}/api-key.env", "VLLM_API_KEY", f"{tmp_path}/api-key")


def run(shell: str) -> int:
    return subprocess.run(["sh", "-c", shell], check=False, stderr=subprocess.DEVNULL).returncode


def compared(env: SecretEnv) -> State:
    """What the machine answers about the content."""
    argv = env.probes()[1]["argv"]
    return {"rc": subprocess.run(argv, check=False, stderr=subprocess.DEVNULL).returncode}


def test_the_file_is_made_and_then_fine(env: SecretEnv) -> None:
    place = Path(env.path)
    assert env.drift([{"type": "missing"}, compared(env)]) == [f"{place}: missing, not a file"]
    (fix,) = env.fix([])
    assert run(fix.shell) == 0
    assert place.read_text() == "VLLM_API_KEY=Top/Secret+1\n"
    assert place.stat().st_mode & 0o777 == 0o600
    assert env.drift([GOOD, compared(env)]) == []
    assert [path.name for path in place.parent.iterdir() if path.name.startswith(".")] == []


def test_another_key_is_noticed_and_taken_over(env: SecretEnv) -> None:
    run(env.fix([])[0].shell)
    Path(env.secret).write_text("another")
    assert env.drift([GOOD, compared(env)]) == [
        f"{env.path}: does not hold the key of {env.secret}"
    ]
    run(env.fix([])[0].shell)
    assert Path(env.path).read_text() == "VLLM_API_KEY=another\n"


@pytest.mark.parametrize("text", [None, "", "\n"])
def test_without_a_secret_there_is_no_file_that_would_switch_the_key_off(
    env: SecretEnv, text: str | None
) -> None:
    Path(env.secret).unlink() if text is None else Path(env.secret).write_text(text)
    assert run(env.fix([])[0].shell) != 0
    assert not Path(env.path).exists()
    Path(env.path).write_text("VLLM_API_KEY=\n")
    assert env.drift([GOOD, compared(env)]) == [
        f"{env.path}: does not hold the key of {env.secret}"
    ]


def test_who_may_read_it_counts(env: SecretEnv) -> None:
    run(env.fix([])[0].shell)
    (found,) = env.drift([{**GOOD, "owner": "llm", "mode": "0644"}, compared(env)])
    assert "owner is llm" in found
    assert "mode is 0644" in found


def test_no_command_holds_the_secret(env: SecretEnv) -> None:
    shells = [env.fix([])[0].shell, str(env.probes())]
    assert not any("Secret+1" in shell for shell in shells)
