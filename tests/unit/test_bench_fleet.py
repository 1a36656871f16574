"""What `sparkwright bench` makes of a fleet's answers, of model files, and of llama-benchy."""

from __future__ import annotations

import argparse
import dataclasses
import json
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkwright import bench_benchy, bench_fleet, bench_measure, bench_model, bench_tokenizer
from sparkwright.bench_drive import Asked, Target
from sparkwright.bench_runs import Depth, Run
from sparkwright.errors import SparkwrightError
from sparkwright.model_shape_files import of_file
from sparkwright.recipe_types import Spread
from sparkwright.status_rows import MachineRow, Row
from tests.lab.shape_gguf import Shape, write
from tests.unit.machine_case import program

SMALL = Shape(layers=3, hidden=64, heads=2, kv_heads=1, head=32, experts=4, used=2, wide=64,
              vocab=5000)  # fmt: skip


def row(machine: str, state: str, recipe: str = "model") -> Row:
    return Row(machine, recipe, "running", state, 8080, "127.0.0.1", "llama.cpp", 1.0)


def machines(*rows: Row) -> list[MachineRow]:
    return [MachineRow(each.machine, True, "", (each,)) for each in rows]


def test_the_running_one_is_chosen() -> None:
    rows = machines(row("spark-1", "standby"), row("spark-2", "running"))
    assert bench_fleet.chosen("model", rows).machine == "spark-2"


@pytest.mark.parametrize(
    ("name", "states", "said"),
    [
        ("modle", ["running"], "no machine serves modle; did you mean model?"),
        ("model", ["running", "running"], "runs on spark-1, spark-2; choose one with --limit"),
        ("model", ["failed", "unknown"], "spark-1: model is failed\nspark-2: model is unknown"),
    ],
)
def test_why_none_is_chosen(name: str, states: list[str], said: str) -> None:
    rows = machines(*(row(f"spark-{n}", state) for n, state in enumerate(states, 1)))
    with pytest.raises(SparkwrightError, match=said):
        bench_fleet.chosen(name, rows)


def test_a_model_that_did_not_answer_its_question_is_named() -> None:
    asked = dataclasses.replace(row("spark-1", "running"), accepted=True)
    assert bench_model.unproved(asked) == ()
    for accepted in (None, False):
        (note,) = bench_model.unproved(dataclasses.replace(asked, accepted=accepted))
        assert "`sparkwright verify --limit spark-1`" in note


def test_machines_that_compute_together_read_together() -> None:
    assert bench_measure.together(273, Spread()) == 273e9
    assert bench_measure.together(273, Spread(2, 2, "mp")) == 546e9
    assert bench_measure.together(273, Spread(2, 1, "rpc")) == 273e9


def told(directory: Path, capsys: pytest.CaptureFixture[str], **more: Any) -> dict[str, Any]:
    """What the program says of the files in a directory."""
    files = sorted(p.name for p in directory.iterdir() if p.suffix in (".gguf", ".safetensors"))
    spec = {"directory": str(directory), "files": files, "key_file": None, "vocabulary": False}
    assert program("bench_read").main([json.dumps({**spec, **more})]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_machine_says_of_a_gguf_file_what_we_would_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "model.gguf", SMALL)
    said = told(tmp_path, capsys)
    found, why = bench_model.model(said, "spark-1")
    ours = of_file(tmp_path / "model.gguf")
    assert (found and found.shape, found and found.tensors, why) == (ours.shape, ours.tensors, "")
    # The vocabulary stays there unless it is wanted: it is ten times the rest.
    assert "tokenizer.ggml.tokens" not in said["gguf"][0]["metadata"]
    assert bench_model.tokenizer(said, None) is None
    full = json.loads(bench_model.tokenizer(told(tmp_path, capsys, vocabulary=True), None) or "")
    assert len(full["model"]["vocab"]) == SMALL.vocab
    assert full["model"]["merges"] == ["\u0120 t"]


def test_a_machine_says_of_safetensors_what_is_in_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2,
              "vocab_size": 100, "model_type": "llama", "intermediate_size": 64}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    header = json.dumps({"lm_head.weight": {"dtype": "BF16", "shape": [100, 64],
                                            "data_offsets": [0, 12800]}}).encode()  # fmt: skip
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    # A header is all that is read: the weights are not even there.
    with (tmp_path / "a.safetensors").open("ab") as file:
        file.truncate(len(header) + 8 + 12800)
    found, why = bench_model.model(told(tmp_path, capsys), "spark-1")
    assert (why, found and found.bytes, found and found.shape.vocab) == ("", 12800, 100)


@pytest.mark.parametrize("data", [b"", b"GGUF\x09\0\0\0", b"no model at all, but long enough"])
def test_a_damaged_file_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    (tmp_path / "model.gguf").write_bytes(data)
    found, why = bench_model.model(told(tmp_path, capsys), "spark-1")
    assert found is None
    assert why


def test_the_key_is_read_on_the_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "api-key").write_text("Planted-Key-2\n")
    assert told(tmp_path, capsys, key_file=str(tmp_path / "api-key"))["key"] == "Planted-Key-2"
    assert "FileNotFoundError" in told(tmp_path, capsys, key_file="/nowhere/key")["why"]


def test_another_kind_of_vocabulary_makes_no_tokenizer() -> None:
    words = {"tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.merges": ["a b"]}
    assert bench_tokenizer.of_metadata({**words, "tokenizer.ggml.model": "llama"}) is None
    made = json.loads(bench_tokenizer.of_metadata({**words, "tokenizer.ggml.model": "gpt2"}) or "")
    assert made["model"]["merges"] == []  # what it would make is no token


DEPTHS = (Depth(2048, 1.0, 1.0, 0.0), Depth(6144, None, None, None, errors=("full",)))
MADE = Run("i", "t", "r", "", "llama.cpp", "m", None, None, "url", {}, depths=DEPTHS)
OPTIONS = argparse.Namespace(no_benchy=False)
TARGET = Target("http", "127.0.0.1", 8080, "tiny", key="Planted-Key-3")
# As llama-benchy 0.4.0 writes it, fields that we do not read left out.
RESULT = {
    "version": "0.4.0",
    "benchmarks": [
        {"context_size": 0, "prompt_size": 2048, "response_size": 64,
         "pp_throughput": {"mean": 2401.5, "std": 3.0, "values": []},
         "tg_throughput": {"mean": 58.7, "std": 0.2, "values": []}},
        {"context_size": 4096, "prompt_size": 2048, "response_size": 64,
         "pp_throughput": None, "tg_throughput": {"mean": 55.1, "std": 0.1, "values": []}},
    ],
}  # fmt: skip


def test_llama_benchy_is_run_offline_and_its_key_is_no_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}

    def fake_run(argv: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
        words = json.loads(more["input"])
        seen.update(argv=argv, words=words, env=more["env"])
        home = Path(more["env"]["HOME"])
        seen["book"] = next((home / ".cache/llama-benchy").iterdir()).read_text()
        Path(words[words.index("--save-result") + 1]).write_text(json.dumps(RESULT))
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(bench_benchy.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(bench_benchy.subprocess, "run", fake_run)
    found = bench_benchy.run(TARGET, Asked(), MADE, "{}", OPTIONS)
    assert [(r["test"], r["mean"]) for r in found["rows"]] == [
        ("pp2048", 2401.5), ("tg64", 58.7), ("tg64 @ d4096", 55.1),
    ]  # fmt: skip
    assert not any("Planted" in word for word in seen["argv"])
    assert "Planted-Key-3" in seen["words"]
    assert seen["env"]["HF_HUB_OFFLINE"] == "1"
    assert len(seen["book"]) > 20_000
    # The depth that failed in our own run is not tried again.
    at = seen["words"].index("--depth")
    assert seen["words"][at + 1 : at + 3] == ["0", "--exact-tg"]


def test_why_llama_benchy_was_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_benchy.importlib.util, "find_spec", lambda name: None)
    assert "not installed" in bench_benchy.run(TARGET, Asked(), MADE, "{}", OPTIONS)["why"]
    monkeypatch.setattr(bench_benchy.importlib.util, "find_spec", lambda name: object())
    assert "tokenizer" in bench_benchy.run(TARGET, Asked(), MADE, None, OPTIONS)["why"]

    def failing(argv: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, 1, "trace\nWarmup failed: HTTP 404\n", "")

    monkeypatch.setattr(bench_benchy.subprocess, "run", failing)
    why = bench_benchy.run(TARGET, Asked(), MADE, "{}", OPTIONS)["why"]
    assert why == "it ended with 1: Warmup failed: HTTP 404"
