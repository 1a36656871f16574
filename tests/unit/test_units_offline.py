"""Every unit names paths on the machine, and has the variables that keep it from the network."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from sparkwright.llama_server import OFFLINE as LLAMA
from sparkwright.vllm_server import OFFLINE as VLLM

GOLDEN = Path(__file__).parents[1] / "golden"
UNITS = sorted(GOLDEN.glob("**/*.service"))
# Flags that name what the Hub or another server has: vLLM's and llama-server's own.
ELSEWHERE = {
    "--hf-config-path", "--hf-repo", "--hf-file", "--hf-token", "--model-url", "--mmproj-url",
    "--docker-repo", "--hf-repo-draft", "--spec-draft-hf", "--revision", "--tokenizer-revision",
}  # fmt: skip
# Flags whose value is a file or a directory, and must be one of the machine.
PATHS = {
    "--model", "--model-draft", "--mmproj", "--tokenizer", "--chat-template-file",
    "--reasoning-parser-plugin", "--tool-parser-plugin", "--api-key-file", "--download-dir",
}  # fmt: skip

each_unit = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)


def words(path: Path) -> list[str]:
    return path.read_text().replace("\\\n", " ").split()


def test_there_are_units_of_each_engine() -> None:
    text = " ".join(path.read_text() for path in UNITS)
    assert len(UNITS) > 15
    for program in ("bin/llama-server", "bin/vllm", "/usr/bin/docker", "OFFLINE_MODE"):
        assert program in text


@each_unit
def test_addresses_are_the_machines_own_or_the_fleets(path: Path) -> None:
    hosts = set(re.findall(r"\w+://([^/:\s\"]+)", path.read_text()))
    assert {
        host for host in hosts if not re.fullmatch(r"127\.0\.0\.1|192\.168\.\d+\.\d+", host)
    } == set()


@each_unit
def test_models_are_paths_on_the_machine(path: Path) -> None:
    found = words(path)
    assert ELSEWHERE.isdisjoint(word.split("=")[0] for word in found)
    named = [after for word, after in pairwise(found) if word in PATHS]
    named += [after for word, after in pairwise(found) if word == "serve"]
    assert [name for name in named if not name.startswith("/")] == []
    assert named or "open-webui" in path.name or path.parent.name == "containers"


@each_unit
def test_variables_keep_it_offline(path: Path) -> None:
    text = path.read_text().replace('"', "")
    wanted = dict(VLLM) if re.search(r"\bserve\b", text) else {}
    wanted |= dict(LLAMA) if "llama-server" in text else {}
    wanted |= {"OFFLINE_MODE": "True"} if "open-webui" in path.name else {}
    missing = {f"{k}={v}" for k, v in wanted.items() if f"{k}={v}" not in text}
    assert missing == set()
    assert wanted or path.parent.name == "containers"
