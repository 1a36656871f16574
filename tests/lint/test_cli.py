"""The command: exit codes, formats, builds, and its pages."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from sparkwright import cli_lint
from sparkwright.errors import SparkwrightError
from sparkwright.lint import builds, docs
from sparkwright.lint.findings import Verdict
from sparkwright.lint.registry import rules

BAD = "vllm serve /srv/m --gpu-memory-utilization 0.8 --swap-space 4\n"
WARNED = "vllm serve /srv/m --gpu-memory-utilization 0.8 --enforce-eager\n"
GOOD = "vllm serve /srv/m --gpu-memory-utilization 0.8\n"


def script(directory: Path, text: str) -> str:
    path = directory / "serve.sh"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        (GOOD, [], 0),
        (WARNED, [], 0),
        (WARNED, ["--strict"], 1),
        (BAD, [], 1),
        (BAD, ["--for", "vllm==0.17.1"], 0),
        (BAD, ["--for", "0.18.0"], 1),
        (BAD, ["--profile", "stock-0.17.1"], 0),
        (BAD, ["--kind", "envfile"], 0),
    ],
)
def test_exit_codes(tmp_path: Path, text: str, words: list[str], code: int) -> None:
    assert cli_lint.main([*words, script(tmp_path, text)]) == code


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--for", "banana"], "no version"),
        (["--for", "vllm==9.9.9"], "was not learned"),
        (["--venv", "/nowhere"], "/nowhere"),
        (["--profile", "none"], "no such profile"),
        (["--for", "0.24.0", "--profile", "stock"], "only one"),
        (["--model-config", "/nowhere"], "cannot be read"),
        (["--learn", "/nowhere"], "cannot be read"),
        ([], "no files"),
    ],
)
def test_bad_options_say_what_to_do(tmp_path: Path, words: list[str], part: str) -> None:
    files = [script(tmp_path, GOOD)] if words else []
    with pytest.raises(SparkwrightError, match=part):
        cli_lint.main([*words, *files])


def test_json_has_what_machines_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script(tmp_path, BAD)
    cli_lint.main(["--format", "json", path])
    (found,) = json.loads(capsys.readouterr().out)
    assert found.pop("message").startswith("--swap-space is not in")
    assert found.pop("fix").startswith("remove it")
    assert "vllm#27984" in found.pop("source")
    assert found == {
        "file": path,
        "line": 1,
        "column": 48,
        "verdict": "BLOCK",
        "rule": "removed-flag",
        "sees": "--swap-space 4",
    }


def test_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli_lint.main(["--format", "sarif", script(tmp_path, BAD)])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (result,) = run["results"]
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 1,
        "startColumn": 48,
    }
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(rules())


def test_text_names_the_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli_lint.main([script(tmp_path, BAD)])
    shown = capsys.readouterr().out
    assert "1:48  BLOCK" in shown
    assert "the newest known here" in shown
    assert "\x1b" not in shown


def test_context_against_a_models_config(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"max_position_embeddings": 4096}')
    path = script(tmp_path, GOOD.replace("\n", " --max-model-len 8192\n"))
    assert cli_lint.main(["--model-config", str(config), path]) == 1


def wheel(path: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def test_learning_refuses_what_is_no_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "x.whl"
    wheel(path, {"other/__init__.py": ""})
    with pytest.raises(SparkwrightError, match="holds no vllm"):
        builds.learn(str(path))


def test_a_learned_build_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    facts = {"engine": "vllm", "build": "stock", "version": "9.9.9", "env": {}, "deprecated": {}}
    facts |= {"flags": {"port": {"choices": None, "value": True}}, "reasoning_parsers": []}
    facts |= {"tool_parsers": [], "attention_backends": []}
    monkeypatch.setattr(builds, "_printed", lambda words: json.dumps(facts))
    path = tmp_path / "vllm-9.9.9.whl"
    wheel(path, {"vllm/envs.py": "", "vllm/data.bin": "no Python"})
    assert cli_lint.main(["--learn", str(path)]) == 0
    assert builds.for_version("vllm==9.9.9").flags.keys() == {"port"}
    assert cli_lint.main(["--for", "9.9.9", script(tmp_path, GOOD)]) == 1


def test_unpacking_stays_in_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("../evil.py", "/tmp/evil.py"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(SparkwrightError, match="holds no vllm"):
        builds.learn(str(path))
    assert not list(tmp_path.rglob("evil.py"))


def test_pages_are_those_of_the_docstrings() -> None:
    """Mend with: python -m sparkwright.lint.docs"""
    kept = {path.name: path.read_text() for path in docs.PAGES.glob("*.md")}
    assert kept == docs.texts()


def test_rules_say_where_they_are_from() -> None:
    for rule in rules().values():
        assert rule.source
        assert rule.summary.endswith((".", "`.")), rule.id
        assert set(rule.verdicts) <= set(Verdict)
        assert rule.verdicts, rule.id
