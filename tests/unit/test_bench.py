"""`sparkwright bench` against a stand-in for an engine: figures, roofs, refusals, kept runs."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sparkwright import bench_roof, bench_runs, bench_store, bench_svg, bench_text, model_shape_gguf
from sparkwright.bench_drive import Asked, target_of
from sparkwright.bench_runs import Depth, Level, Run
from sparkwright.cli import main
from sparkwright.errors import SparkwrightError
from sparkwright.model_shape import from_config
from sparkwright.model_shape_files import Model, known, of_gguf_headers
from sparkwright.paths import PROJECT
from sparkwright.roofline import read_per_token, roof
from sparkwright.roofline_tensors import Formats, tensors
from tests.fake_openai import Fake
from tests.lab.shape_gguf import Shape, header, size_of, write
from tests.lab.shape_gguf import tensors as shape_tensors

IDLE = "llamacpp:requests_processing 0\nllamacpp:tokens_predicted_total 7\n"
PAGES = {"/metrics": IDLE, "/v1/models": json.dumps({"data": [{"id": "tiny"}]})}
SMALL = Shape(layers=2, hidden=64, heads=2, kv_heads=1, head=32, experts=4, used=2, wide=64,
              vocab=512)  # fmt: skip
ASKED = ["--users", "1,3", "--depths", "0,100", "--pp", "32", "--tg", "8", "--repeat", "2",
         "--max-tokens", "12", "--no-benchy"]  # fmt: skip


def schema(name: str) -> Any:
    return json.loads((PROJECT / f"docs/schemas/{name}.json").read_text())


def bench(fake: Fake, place: Path, *words: str) -> int:
    url = f"http://127.0.0.1:{fake.port}"
    return main(["bench", "--url", url, "--results", str(place / "runs.jsonl"), *words])


def test_a_run_is_measured_judged_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "model.gguf", SMALL)
    gguf = str(tmp_path / "model.gguf")
    with Fake(PAGES).serve() as fake:
        code = bench(fake, tmp_path, *ASKED, "--json", "--gguf", gguf, "--bandwidth", "4800")
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, schema("bench"))
    assert code == 0
    assert found["model"] == "tiny"
    assert [depth["tokens"] for depth in found["depths"]] == [32, 132]
    assert all(0 < depth["share"] < 1 for depth in found["depths"])
    assert [(lv["users"], lv["answered"], lv["failed"]) for lv in found["levels"]] == [
        (1, 4, 0), (3, 6, 0),
    ]  # fmt: skip
    assert found["levels"][0]["throughput"] > 0
    (kept,) = bench_store.load(tmp_path / "runs.jsonl")
    assert kept.as_json() == found
    assert (tmp_path / "runs.jsonl").stat().st_mode & 0o077 == 0


def test_prompts_are_token_numbers_of_the_right_length(tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", SMALL)
    with Fake(PAGES).serve() as fake:
        bench(fake, tmp_path, *ASKED, "--gguf", str(tmp_path / "model.gguf"))
    plain = [asked for asked in fake.asked if asked["path"] == "/v1/completions"]
    assert [len(asked["prompt"]) for asked in plain] == [32, 32, 132, 132]
    assert plain[0]["prompt"] != plain[1]["prompt"]  # nothing comes out of a prompt cache
    assert all(153 <= token < 307 for asked in plain for token in asked["prompt"])
    assert all(asked["ignore_eos"] and asked["stream"] for asked in plain)


def test_tokens_are_counted_as_the_server_counts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server with speculation sends several in one line."""
    with Fake(PAGES, burst=4).serve() as fake:
        bench(fake, tmp_path, *ASKED, "--json")
    level = json.loads(capsys.readouterr().out)["levels"][0]
    rows = {"start": 0.0, "first": 1.0, "last": 2.0, "pieces": 3, "tokens": 12, "error": None}
    assert level["answered"] == 4
    assert bench_runs.pace(rows) == pytest.approx(1 / 11)
    assert bench_runs.pace({**rows, "tokens": None}) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ({"/metrics": "llamacpp:requests_processing 2\n"}, "2 request(s) of others are under way"),
        ({"/metrics": 'vllm:num_requests_waiting{engine="0"} 1.0\n'}, "1 request(s) of others"),
        ({"/slots": '[{"is_processing": true}]'}, "1 request(s) of others"),
        ({}, "neither /metrics nor /slots says"),
    ],
)
def test_others_are_not_disturbed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], page: dict[str, str], said: str
) -> None:
    with Fake({**page, "/v1/models": PAGES["/v1/models"]}).serve() as fake:
        assert bench(fake, tmp_path, *ASKED) == 2
        assert said in capsys.readouterr().err
        heavy = [asked for asked in fake.asked if asked["max_tokens"] > 8]
        assert heavy == []
        assert not (tmp_path / "runs.jsonl").exists()
        assert bench(fake, tmp_path, *ASKED, "--anyway") == 0


def test_the_key_is_sent_and_shown_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("Planted-Key-1\n")
    with Fake(PAGES, key="Planted-Key-1").serve() as fake:
        assert bench(fake, tmp_path, *ASKED, "--key-file", str(tmp_path / "key"), "--json") == 0
        shown = capsys.readouterr()
        assert "Planted" not in shown.out + shown.err + (tmp_path / "runs.jsonl").read_text()
        assert bench(fake, tmp_path, *ASKED) == 2
        assert "HTTP 401" in capsys.readouterr().err


def test_a_server_that_refuses_our_fields_is_measured_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Fake(PAGES, strict=True).serve() as fake:
        assert bench(fake, tmp_path, *ASKED) == 0
    assert "refuses ignore_eos" in capsys.readouterr().out


def test_failed_requests_are_counted_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Fake(PAGES, broken=True).serve() as fake:
        assert bench(fake, tmp_path, *ASKED) == 1
    assert "FAILED: HTTP 500: the engine is dead" in capsys.readouterr().out


def test_nothing_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Fake(PAGES).serve() as fake:
        pass
    assert bench(fake, tmp_path, "--model", "tiny") == 2
    assert "does not answer as it should (ConnectionRefusedError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--url", "127.0.0.1:8080"], "is no address"),
        (["--url", "http://127.0.0.1:1", "--model", "x", "--gguf", "/nowhere"], "no such file"),
        (["--url", "http://127.0.0.1:1", "--model", "x", "--bandwidth", "0"], "give GB/s"),
        (["--url", "http://127.0.0.1:1", "--model", "x", "--key-file", "/no"], "readable file"),
        (["--llama-bench", "/nowhere"], "give a readable file"),
        ([], "Give a RECIPE, or --url"),
        (["--compare", "one"], "give two runs, or none"),
        (["x", "--compare"], "0 run(s) kept"),
    ],
)
def test_bad_input_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["bench", "--results", str(tmp_path / "none"), *words]) == 2
    assert said in capsys.readouterr().err


def run(**more: Any) -> Run:
    """A run as it could have been kept."""
    base: dict[str, Any] = {
        "id": "20261130-000000-aaaa", "at": "2026-11-30T00:00:00Z", "recipe": "r",
        "machine": "spark-1", "engine": "llama.cpp", "model": "m", "build": "b1", "digest": "d",
        "place": "this computer, through SSH", "settings": {"pp": 2048},
        "depths": (Depth(2048, 2443.9, 58.7, 0.2, 75.9, 0.773),),
        "levels": (Level(1, 58.0, (0.9, 1.0), (0.017, 0.018), 4, 0),
                   Level(8, 140.0, (2.0, 4.0), (0.05, 0.06), 8, 0)),
        "bandwidth": 273.0, "read_gb": 3.59, "gate": 0.59,
    }  # fmt: skip
    return Run(**{**base, **more})


def test_below_the_gate_usual_causes_are_named() -> None:
    causes = bench_roof.causes("r", "llama.cpp", {"load-mode": "mmap"}, "spark-1")
    slow = run(depths=(Depth(2048, 900.0, 26.0, 0.1, 75.9, 0.34),), causes=causes)
    text = "\n".join(bench_text.lines(slow))
    assert slow.slow
    assert "BELOW THE GATE of 59% of the roof" in text
    assert [row["cause"] for row in slow.causes] == [
        "mmap", "wrong backend", "power cap", "degraded port", "not alone",
    ]  # fmt: skip
    assert not run().slow
    assert "BELOW" not in "\n".join(bench_text.lines(run()))


def test_eager_mode_leads_where_the_recipe_says_it() -> None:
    rows = bench_roof.causes("r", "vllm", {"enforce-eager": True}, "")
    assert rows[0]["cause"] == "eager mode"
    assert "the recipe says enforce-eager" in rows[0]["why"]


def test_every_command_that_a_cause_names_exists() -> None:
    from sparkwright.cli import COMMANDS

    for row in bench_roof.causes("r", "vllm", {}, "spark-1"):
        program, command = row["look"].split()[:2]
        assert (program, command in COMMANDS) == ("sparkwright", True)


def test_a_gate_holds_for_a_spark_alone() -> None:
    assert bench_roof.gate_for(273e9, None) == 0.59
    assert bench_roof.gate_for(4.8e12, None) is None
    assert bench_roof.gate_for(4.8e12, 0.1) == 0.1


@pytest.mark.parametrize(
    ("formats", "rate"), [(("q8_0", "q8_0"), 76), (("bf16", "bf16"), 54), (("mxfp4", "mxfp4"), 99)]
)
def test_roofs_of_gpt_oss_120b(formats: tuple[str, str], rate: int) -> None:
    """The worked values by number format of attention and output; at depth 0, as bench gives it."""
    config = known()["openai/gpt-oss-120b"]["config"]
    made = tuple(tensors(config, Formats(*formats, experts="mxfp4")))
    model = Model(from_config(config), 0, False, (), made)
    (depth,) = bench_roof.judged([Depth(0, None, 40.0, None)], model, {}, 0, 273e9)
    assert depth.roof == pytest.approx(rate, rel=0.006)
    assert depth.share == pytest.approx(40 / rate, rel=0.006)


def test_public_figures_of_the_engine_come_first() -> None:
    rows = bench_roof.references("openai/gpt-oss-120b", "vllm")
    assert rows[0]["engine"] == "vllm"
    assert {row["decode"] for row in rows} >= {58.72, 42.76}
    assert all(row["source"] for row in rows)
    assert bench_roof.references("nobody/knows", "vllm") == ()


def test_two_runs_are_compared(tmp_path: Path) -> None:
    later = run(id="20261130-010000-bbbb", build="b2",
                depths=(Depth(2048, 2000.0, 64.57, 0.2, 75.9, 0.85),))  # fmt: skip
    for one in (run(), later):
        bench_store.keep(tmp_path / "runs", one)
    a, b = bench_store.pick(bench_store.load(tmp_path / "runs"), "r", [])
    rows = {row.name: row for row in bench_store.compared(a, b)}
    assert rows["decode at 2048 tokens"].change == pytest.approx(0.1)
    assert bench_text.change(rows["TTFT p99, 8 user(s)"]) == "0.0% same"
    assert bench_store.differences(a, b) == ["build: b1 -> b2"]
    jsonschema.validate(bench_text.compare_json(a, b, list(rows.values())), schema("bench-compare"))
    with pytest.raises(SparkwrightError, match="several runs begin so"):
        bench_store.pick([a, b], None, ["2026", "2026"])


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text(json.dumps(run().as_json()) + "\n{}\n")
    with pytest.raises(SparkwrightError, match="line 2: is no run"):
        bench_store.load(tmp_path / "runs")


def test_the_page_needs_nothing_else_and_its_plots_are_well_formed(tmp_path: Path) -> None:
    from sparkwright import bench_html

    text = bench_html.page(run(recipe="<r>"), [run(id="20261129-000000-cccc")])
    plots = re.findall(r"<svg.*?</svg>", text)
    assert len(plots) == 2
    assert [len(ET.fromstring(plot).findall(".//{*}circle")) for plot in plots] == [4, 3]  # noqa: S314 - our own text
    assert "<h1>&lt;r&gt; on spark-1</h1>" in text
    assert not re.search(r"\b(src|href)=", text)


def test_ticks_are_round_and_reach_above() -> None:
    assert bench_svg.ticks(58.7) == [0, 20, 40, 60]
    assert bench_svg.ticks(0.0) == [0, 1]
    assert bench_svg.ticks(18432) == [0, 5000, 10000, 15000, 20000]


def test_llama_bench_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows as llama-bench b11312 writes them, most fields left out."""
    write(tmp_path / "model.gguf", SMALL)
    first = {"build_number": 11312, "model_type": "gpt-oss", "gpu_info": "NVIDIA GB10",
             "type_k": "f16", "n_depth": 0, "stddev_ts": 1.0}  # fmt: skip
    rows = [{**first, "n_prompt": 512, "n_gen": 0, "avg_ts": 2443.9},
            {**first, "n_prompt": 0, "n_gen": 128, "avg_ts": 58.7}]  # fmt: skip
    (tmp_path / "out.json").write_text(json.dumps(rows))
    words = ["--llama-bench", str(tmp_path / "out.json"), "--gguf", str(tmp_path / "model.gguf")]
    code = main(["bench", *words, "--results", str(tmp_path / "runs"), "--json"])
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, schema("bench"))
    assert (code, found["build"], found["below_gate"]) == (1, "b11312", True)
    assert (found["depths"][0]["prefill"], found["depths"][0]["decode"]) == (2443.9, 58.7)


def test_the_generated_model_reads_as_much_as_gpt_oss_120b(tmp_path: Path) -> None:
    """3.59 GB a token and 76 tok/s on a Spark: only the header is written here."""
    (tmp_path / "full.gguf").write_bytes(header(Shape()))
    said = model_shape_gguf.read(tmp_path / "full.gguf")
    model = of_gguf_headers([said], "full.gguf")
    read = read_per_token(model.tensors, model.shape)
    assert read == pytest.approx(3.594e9, rel=1e-3)
    assert roof(read, model.shape).rate == pytest.approx(76, abs=0.1)
    assert sum(size_of(size, kind) for _, size, kind in shape_tensors(Shape())) == model.bytes


def test_depths_beyond_the_context_are_left_out() -> None:
    lengths, notes = Asked(depths=(0, 4096), pp=512).prompts(2048)
    assert lengths == [512]
    assert "4608" in notes[0]
    assert target_of("https://a.example/api", "m", "").port == 443
