"""What a shell script gives a program, against bash itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sparkwright.lint.model import Launch
from sparkwright.lint.parse import script
from sparkwright.lint.text import of_file

# Each ends in a line that starts vllm; bash runs it with a program that prints its words.
KNOWN = [
    "vllm serve m --a 'b c' \"d\\\"e\" f\\ g h\\\ni",
    'X=1; Y="a b"; vllm serve "$X" $Y ${X}z "${Y}"',
    "args=(--a 1 # why\n  --b '2 3')\nargs+=(--c)\nvllm serve \"${args[@]}\" end",
    'vllm serve {"a":"b","c":3} {"a":1} x{1,2}y \'{"a": 1}\'',
    "A=$'x\\ty'; vllm serve \"$A\" --z=~/x",
    'f() { local m=$1; shift; vllm serve "$m"; }\nf one two',
    "set -- a 'b c'\nvllm serve \"$@\"",
    "M=${UNSET_HERE:-default one}; vllm serve $M",
    "X=1\nif [ 2 = 2 ]; then :; fi\n(X=2)\nvllm serve $X",
    "export A=1 B='2 3'; env C=4 nohup vllm serve m",
    "C=\"vllm serve a 'b c'\"; eval \"$C d\"",
    "bash -c \"vllm serve 'x y' z\"",
    "X=; vllm serve a $X b \"$X\" c",
    "a=(1 2); b=(0 \"${a[@]}\" 3); exec vllm serve \"${b[@]}\"",
    "X=a; X+=b; vllm serve $X",
    "vllm serve 1 && echo done",
    "while true; do break; done; vllm serve $((1)) | cat",
]  # fmt: skip


def launches(text: str) -> tuple[Launch, ...]:
    return script.read(of_file(text, "x.sh"), script.nothing_at_hand).launches


@pytest.mark.parametrize("text", KNOWN)
def test_words_are_those_of_bash(text: str, tmp_path: Path) -> None:
    program = tmp_path / "vllm"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "names = {n: os.environ[n] for n in 'ABC' if n in os.environ}\n"
        f"open({str(tmp_path / 'out')!r}, 'w').write(json.dumps([sys.argv[1:], names]))\n"
    )
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/root"}
    subprocess.run(
        ["/bin/bash", "-c", text], check=True, env=env, cwd=tmp_path, capture_output=True
    )
    words, names = json.loads((tmp_path / "out").read_text())
    (launch,) = launches(text)
    told = [word.text for word in launch.argv[1:]]
    assert told == [
        None if word.text is None else real
        for word, real in zip(launch.argv[1:], words, strict=True)
    ]
    assert {item.name: item.value for item in launch.env} == names


UNKNOWN = [
    'vllm serve "$1"',
    "vllm serve $(cat model)",
    "read -r M; vllm serve $M",
    "for m in a b; do vllm serve $m; done",
    'M=a; if [ -n "$Q" ]; then M=b; fi; vllm serve $M',
    "vllm serve ~/model",
    "vllm serve ${M%.x}",
    "vllm serve /srv/*.gguf",
    'case "$1" in a) M=1;; b) M=2;; esac; vllm serve $M',
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_cannot_be_told_is_not_guessed(text: str) -> None:
    (launch,) = launches(text)
    assert launch.argv[2].text is None


def test_a_branch_adds_words_that_may_be_there() -> None:
    (launch,) = launches('a=(m)\nif [ -n "$T" ]; then a+=(--t); fi\nvllm serve "${a[@]}"')
    assert [(word.text, word.maybe) for word in launch.argv[2:]] == [("m", False), ("--t", True)]


def test_a_default_says_what_changes_it() -> None:
    (launch,) = launches('vllm serve "${M:-a}" --port "${P:-8000}"')
    assert [(word.text, word.unless) for word in launch.argv[2:]] == [
        ("a", "M"),
        ("--port", ""),
        ("8000", "P"),
    ]


def test_options_of_the_script_leave_the_default() -> None:
    text = (
        'P=80\nwhile [ $# -gt 0 ]; do case "$1" in -p) P="$2"; shift 2;; *) exit 1;; esac; done\n'
    )
    (launch,) = launches(f"{text}vllm serve m --port $P")
    assert launch.argv[-1].text == "80"
    assert launch.argv[-1].unless


def test_places_of_words_from_variables() -> None:
    (launch,) = launches('a=(\n  --x 1\n)\nvllm serve m "${a[@]}"')
    assert [(word.at.line, word.at.column) for word in launch.argv[3:]] == [(2, 3), (2, 7)]


def test_talk_about_a_server_is_no_start() -> None:
    assert launches('echo "vllm serve x"; pgrep -f "vllm serve"; log vllm serve y') == ()


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("x", [""]),
        ("sudo -E A=1 x", ["root"]),
        ("sudo -u llm x", ["llm"]),
        ("sudo -nHu llm x", ["llm"]),
        ("sudo -uroot x", ["root"]),
        ("sudo --user=llm nohup x", ["llm"]),
        ('sudo -u "$WHO" x', [None]),
        ("runuser -u llm -- x", ["llm"]),
        ("sudo -u llm bash -c 'x; sudo x'", ["llm", "llm", "root"]),
        ("sudo -u llm vllm serve m", ["llm"]),
    ],
)
def test_whose_process_a_command_is(text: str, users: list[str | None]) -> None:
    found = script.read(of_file(text, "x.sh"), script.nothing_at_hand)
    assert [command.user for command in found.commands] == users
    assert [launch.user for launch in found.launches] == users[: len(found.launches)]
