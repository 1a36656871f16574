"""What llama-server knows, out of the help text of a real build (b11312) and of small ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sparkwright.engine_facts import read_facts, refused
from sparkwright.paths import PROJECT
from tests.unit.machine_case import program

LLAMA = program("introspect_llama")
HELP = (PROJECT / "tests/introspection/golden/llama-server-b11312-help.txt").read_text()
KNOWN = LLAMA.parse(HELP)
TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
ON, OFF = ["on", "enabled", "true", "1"], ["off", "disabled", "false", "0"]


def server(
    folder: Path, help_text: str, status: int = 0, version: str = "version: 1 (abc)"
) -> Path:
    """A program that prints a help text, and its version on stderr as the real one does."""
    (folder / "help").write_text(help_text)
    path = folder / "llama-server"
    asked = f'[ "$1" = --version ] && {{ echo "{version}" >&2; exit 0; }}'
    path.write_text(f'#!/bin/sh\n{asked}\ncat "{folder}/help"\nexit {status}\n')
    path.chmod(0o755)
    return path


def test_every_option_line_gives_its_names() -> None:
    heads = re.findall(r"^(-[^\s,-][^\s,]*|--\w[^\s,]*)((?:, +-[^\s,]+)*)", HELP, re.M)
    long = {name for head in heads for name in re.findall(r"--[\w.-]+", ",".join(head))}
    gone = {n for n, text in KNOWN["deprecated"].items() if text.startswith("the argument has")}
    assert {f"--{name}" for name in KNOWN["flags"]} == long - gone
    assert len(gone) == 8
    assert len(KNOWN["flags"]) == 320


@pytest.mark.parametrize(
    ("name", "choices", "value"),
    [
        ("port", None, True),
        ("flash-attn", [*ON, *OFF, "auto", "-1"], True),
        ("load-mode", ["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"], True),
        ("fit", [*ON, *OFF], True),
        ("split-mode", ["none", "layer", "row", "tensor"], True),  # its hint fills the line
        ("cache-type-k", TYPES, True),
        ("reasoning-format", ["none", "deepseek", "deepseek-legacy", "auto"], True),
        ("verbosity", None, True),  # its list explains numbers
        ("device", None, True),  # <dev1,dev2,..> is a form
        ("poll", None, True),  # <0...100> as well
        ("poll-batch", ["0", "1"], True),
        ("control-vector-layer-range", None, True),  # two values
        ("jinja", None, False),
        ("no-jinja", None, False),
        ("no-kv-offload", None, False),
        ("fim-qwen-1.5b-default", None, False),
        ("tools-runtime", None, True),
    ],
)
def test_values(name: str, choices: list[str] | None, value: bool) -> None:
    assert KNOWN["flags"][name] == {"choices": choices, "value": value}


@pytest.mark.parametrize("name", ["no-mmap", "mlock", "draft", "draft-max"])
def test_what_is_gone_or_refused_when_used_is_no_flag(name: str) -> None:
    assert name not in KNOWN["flags"]


def test_variables() -> None:
    assert KNOWN["env"]["LLAMA_ARG_FLASH_ATTN"] == [*ON, *OFF, "auto", "-1"]
    assert "LLAMA_ARG_NO_JINJA" in KNOWN["env"]  # common_arg::get_env
    assert "LLAMA_ARG_NO_HOST" in KNOWN["env"]
    assert "LLAMA_ARG_NO_NO_HOST" not in KNOWN["env"]  # --no-host has no opposite
    assert len(KNOWN["env"]) == 170


def test_deprecations_keep_their_text() -> None:
    assert "DEPRECATED" in KNOWN["deprecated"]["--defrag-thold"]
    assert "use --spec-draft-n-max" in KNOWN["deprecated"]["--draft"]


def test_main_prints_and_writes_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary = str(server(tmp_path, HELP, version="version: 0.5.0-dev (build 1, commit 0c1e570)"))
    assert LLAMA.main([binary]) == 0
    printed = capsys.readouterr().out
    facts = read_facts(printed)
    assert facts.title == "llama.cpp 0.5.0-dev (build 1, commit 0c1e570)"
    assert LLAMA.main([binary, f"{tmp_path}/facts"]) == 0
    assert json.loads((tmp_path / "facts").read_text()) == json.loads(printed)
    assert not (tmp_path / "facts.new").exists()


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("usage: something\n", 0, "shows no --port; is this llama-server?"),
        (HELP, 1, "exit code 1"),
    ],
)
def test_a_program_that_is_no_server_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, status: int, words: str
) -> None:
    binary = server(tmp_path, text, status)
    assert LLAMA.main([str(binary), f"{tmp_path}/facts"]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "facts").exists()


def test_a_missing_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert LLAMA.main(["/nowhere/llama-server"]) == 1
    assert "/nowhere/llama-server --help: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["--no-mmap"], "--no-mmap: unknown to llama.cpp 1 (abc)"),
        (["--flash-attn"], "--flash-attn: llama.cpp 1 (abc) wants a value after it"),
        (["--flash-attn", "yes"], "--flash-attn yes: llama.cpp 1 (abc) takes on, enabled"),
        (["--jinja", "on"], "--jinja: takes no value in llama.cpp 1 (abc), but on follows"),
        (["--draft", "4"], "--draft: removed in llama.cpp 1 (abc): the argument has been removed"),
        (["-fa", "on"], "-fa: a short option; write its long name"),
    ],
)
def test_what_a_build_would_not_take(tmp_path: Path, words: list[str], phrase: str) -> None:
    facts = read_facts(json.dumps(LLAMA.facts(str(server(tmp_path, HELP)))))
    (found,) = refused(words, {}, facts)
    assert found.startswith(phrase)


def test_what_our_recipes_use_is_taken(tmp_path: Path) -> None:
    facts = read_facts(json.dumps(LLAMA.facts(str(server(tmp_path, HELP)))))
    words = "--model /m --flash-attn on --jinja --ctx-size 131072 --seed -1 --gpt-oss-20b-default"
    env = {"LLAMA_ARG_LOAD_MODE": "mmap", "GGML_X": "1"}
    assert refused(words.split(), env, facts) == []
    assert refused([], {"LLAMA_ARG_MMAP": "0"}, facts)[0].startswith("LLAMA_ARG_MMAP: unknown")
