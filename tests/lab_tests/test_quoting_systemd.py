"""Quoting against real systemd: a unit that writes down its argv and environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkwright.quoting import environment, exec_line
from tests.lab import Machine

pytestmark = pytest.mark.lab

PYTHON = "/usr/bin/python3"
SCRIPT = "/opt/quoting_dump.py"
OUT = "/run/quoting_dump.json"
# sys.orig_argv keeps argv[0]; bytes as hex, so that nothing between here and there may touch them.
DUMP = f"""
import json, os, sys
argv = [os.fsencode(word).hex() for word in sys.orig_argv]
env = {{name.hex(): value.hex() for name, value in os.environb.items()}}
with open({OUT!r}, "w") as out:
    json.dump({{"argv": argv, "env": env, "uid": os.getuid()}}, out)
"""
START = f"""set -e
sudo tee /etc/systemd/system/quoting-dump.service >/dev/null
sudo rm -f {OUT}
systemd-analyze verify /etc/systemd/system/quoting-dump.service >&2
sudo systemctl daemon-reload
sudo systemctl start quoting-dump.service
systemctl show quoting-dump.service --property=ExecStart,Environment >/dev/null
cat {OUT}
"""

NASTY = (
    "", " ", "  two  spaces ", "\t", "\n", "a\nb", "\r\n", "\\", "\\\\", "end\\", "\\n", "\\x41",
    "\\s", '"', "'", "''", '""', "it's", '"quoted"', "'single'", '\\"', "{}", "{a,b}", "[1]", "(x)",
    '{"method":"mtp","num_speculative_tokens":3}', "%", "%%", "%h", "%s", "%i", "p%40ss",
    "{%if a%}", "{%set x=1%}{%for%}", "$", "$$", "$HOME", "${HOME}", "a$HOME", "a${HOME}b",
    "${", "$}", "$1",
    "$$HOME", "${X:-y}", "%$", "$%", "$%h", ";", ";;", "; ", "\\;", "#", "# comment", "-", "--",
    "-x", "@x", "+x", "!x", "!!x", ":x", "~", "~/x", "*", "?", "&", "|", "<", ">",
    "`id`", "$(id)", "!",
    "=", "a=b", "A=B C=D", "\x01", "\x07", "\x1b[31m", "\x7f", "\x0b\x0c", "é", "日本", "😀",
    "\u0085", "\u00a0", "\u2028", "\u202e", "\ufeff", "\ue000", "\U0010fffd",
    "[Unit]", "ExecStart=/bin/x",
    "a" * 70000, "\x01" * 30000,
)  # fmt: skip

VALID = st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="\0")
SPECIAL = st.sampled_from("\\\"'$%{};#!@+:-= \t\n\r~*&|`\x01\x1b\x7faZn0xuhHs.é\u2028")
PIECES = st.sampled_from(["%%", "$$", "${HOME}", "$HOME", "%h", "\\x41", "\\\n", "\\u0041", '" "'])
TEXT = st.one_of(
    st.text(SPECIAL, max_size=12),
    st.text(VALID, max_size=8),
    st.lists(PIECES | SPECIAL, max_size=6).map("".join),
)


@dataclass(frozen=True)
class Seen:
    """What the process got."""

    argv: list[str]
    env: Mapping[str, str]
    uid: int


def text(data: str) -> str:
    return bytes.fromhex(data).decode("utf-8", "surrogateescape")


def start(
    machine: Machine, argv: Sequence[str], env: Sequence[str] = (), *, user: str = "root",
    root: bool = False,
) -> Seen:  # fmt: skip
    """Start a unit and read back what its process got; systemd must not print one warning."""
    unit = ["[Service]", "Type=oneshot", f"User={user}"]
    unit += [environment(f"V{number}", value) for number, value in enumerate(env)]
    unit.append("ExecStart=" + exec_line(argv, root=root))
    done = machine.ssh(START, input="\n".join(unit) + "\n", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    values = {text(name): text(value) for name, value in seen["env"].items()}
    return Seen([text(word) for word in seen["argv"]], values, seen["uid"])


def assert_arrives(machine: Machine, words: Sequence[str], env: Sequence[str]) -> None:
    argv = [PYTHON, SCRIPT, *words]
    seen = start(machine, argv, env)
    assert seen.argv == argv
    assert [seen.env.get(f"V{number}") for number in range(len(env))] == list(env)


@pytest.fixture(scope="module")
def dumper(machine: Machine) -> Machine:
    machine.ssh(f"sudo tee {SCRIPT} >/dev/null", input=DUMP)
    return machine


def test_known_traps(dumper: Machine) -> None:
    assert_arrives(dumper, NASTY, NASTY)


# Few starts with many texts each: a start costs half a second, a text nothing.
@settings(
    max_examples=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                           HealthCheck.large_base_example],
)  # fmt: skip
@given(words=st.lists(TEXT, min_size=30, max_size=80), env=st.lists(TEXT, min_size=30, max_size=80))
def test_any_text(dumper: Machine, words: list[str], env: list[str]) -> None:
    assert_arrives(dumper, words, env)


@pytest.mark.parametrize(
    "name",
    ["py", "p y", "p$y", "p$$y", "${HOME}", "p%hy", "{;}", "-p", "@p", "#é", "p;y", "p$%y z"],
)
def test_program_path(dumper: Machine, name: str) -> None:
    """Path and argv[0] are both the path, for names that systemd's syntax has a meaning for."""
    path = f"/opt/odd programs/{name}"
    dumper.ssh(f"sudo mkdir -p '/opt/odd programs'; sudo ln -sf {PYTHON} '{path}'")
    argv = [path, SCRIPT, "$HOME", "%h"]
    assert start(dumper, argv).argv == argv


@pytest.mark.parametrize("path", [PYTHON, "/opt/p $y"])
def test_root_prefix(dumper: Machine, path: str) -> None:
    dumper.ssh(f"sudo ln -sf {PYTHON} '/opt/p $y'")
    seen = start(dumper, [path, SCRIPT], user="daemon", root=True)
    assert (seen.uid, seen.argv[0]) == (0, path)


def test_longest_argument_and_line(dumper: Machine) -> None:
    """The limits that quoting enforces are ones that systemd and Linux really reach."""
    assert_arrives(dumper, ["a" * 131_071], ["b" * (131_071 - len("V0="))])
    assert_arrives(dumper, ["a" * 131_071] * 7, [])
