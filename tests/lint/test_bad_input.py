"""What is no file that people write: a clear answer, never a traceback, never a wait."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NoReturn

import pytest

from sparkwright import cli_lint
from sparkwright.lint.context import newest
from sparkwright.lint.run import CANNOT, CLEAN, lint


def cannot(path: Path) -> str:
    """Why a file cannot be linted."""
    report = lint([str(path)], newest())
    assert report.code() == CANNOT
    assert report.findings == ()
    return report.cannot[str(path)]


def test_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_bytes(b"\x7fELF\0\0\1")
    assert "binary" in cannot(path)


def test_large_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    with path.open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    assert "larger than" in cannot(path)


@pytest.mark.parametrize("name", ["missing.service", "", "a\0b"])
def test_no_such_file(tmp_path: Path, name: str) -> None:
    report = lint([f"{tmp_path}/{name}" if name else ""], newest())
    assert report.code() == CANNOT


def test_directory(tmp_path: Path) -> None:
    assert "is a directory" in cannot(tmp_path)


def test_fifo_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    os.mkfifo(path)
    assert "regular file" in cannot(path)


def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "loop.sh"
    path.symlink_to(path)
    assert "cannot be read" in cannot(path)


def test_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "a.service"
    path.write_text("[Service]\n", encoding="utf-16")
    assert "UTF-16" in cannot(path)


@pytest.mark.parametrize("text", ["a: [", "\tx: 1", "services: {a: &a [*a, *a]}", "[" * 5000, "%x"])
def test_broken_yaml(tmp_path: Path, text: str) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(text)
    assert lint([str(path)], newest()).code() in (CLEAN, CANNOT)


def test_yaml_bomb(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    path = tmp_path / "compose.yaml"
    path.write_text(
        "\n".join([*lines, "services: {x: {image: vllm/vllm-openai, command: [--gpu-mem, *i]}}"])
    )
    assert lint([str(path)], newest()).code() in (CLEAN, CANNOT)


def test_undecodable_bytes_and_carriage_returns_in_a_unit(tmp_path: Path) -> None:
    path = tmp_path / "a.service"
    path.write_bytes(b"\xef\xbb\xbf[Service]\r\n# caf\xe9\r\nExecStart=/bin/true\r\nRestart=no\r\n")
    report = lint([str(path)], newest())
    assert report.cannot == {}
    assert [item for item in report.findings if item.verdict == "BLOCK"] == []


def test_a_script_of_thousands_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    body = "".join(f'if [ "$A" = {i} ]; then X{i}=1; args+=(--port {i}); fi\n' for i in range(3000))
    path.write_text(f'#!/bin/bash\n{body}vllm serve /srv/m --swap-space 4 "${{args[@]}}"\n')
    report = lint([str(path)], newest())
    assert ("removed-flag", 3002) in {(item.rule, item.line) for item in report.findings}


def test_functions_that_call_each_other(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_text("a() { b; }\nb() { a; bash -c 'bash -c a'; }\na\neval 'eval a'\n" * 30)
    assert lint([str(path)], newest()).code() == CLEAN


def test_files_that_include_each_other(tmp_path: Path) -> None:
    unit, env = tmp_path / "a.service", tmp_path / "a.env"
    unit.write_text("[Service]\nEnvironmentFile=a.env\nExecStart=/bin/true\nRestart=no\n")
    env.write_text("EnvironmentFile=a.service\n")
    script = tmp_path / "a.sh"
    script.write_text(f". {script}\nsource b.sh\n")
    report = lint([str(unit), str(env), str(script)], newest())
    assert report.cannot == {}


def test_unknown_kind_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    assert cli_lint.main([str(path)]) == CANNOT
    assert "--kind" in capsys.readouterr().err
    assert cli_lint.main(["--ignore-unknown", str(path)]) == CLEAN


def test_no_connection_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("lint opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    path = tmp_path / "serve.sh"
    path.write_text(
        "HF_HUB_OFFLINE=0 vllm serve openai/gpt-oss-120b --gpu-memory-utilization 0.7\n"
    )
    assert cli_lint.main([str(path), "--for", "vllm==0.24.0"]) == CLEAN
