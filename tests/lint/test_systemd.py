"""Rules about systemd: our own units are clean, the table of keys, times, and merged drop-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkwright.lint.context import newest
from sparkwright.lint.findings import Finding, Verdict
from sparkwright.lint.model import Kind
from sparkwright.lint.registry import rules
from sparkwright.lint.rules import systemd_known
from sparkwright.lint.run import lint_sources
from sparkwright.lint.source import decode
from tests.lint import case_files

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.service"))
# Entries of the list of user pain that a file can show, and whose verdict a rule here gives.
NUMBERS = [
    *(f"S{number:02}" for number in range(1, 19)),
    *("M01", "M02", "M03", "M04", "M05", "M06", "M07", "M08", "M09"),
    *("T01", "T02", "T03", "T04", "T05", "T06", "T07"),
    *("W01", "W02", "W03", "W05", "W07", "W08", "W10", "W11"),
    *(
        "B01",
        "B02",
        "B03",
        "B04",
        "B07",
        "B08",
        "B09",
        "B10",
        "B11",
        "B13",
        "B14",
        "A01",
        "A04",
        "A05",
    ),
    *("N01", "N02", "N03", "N04", "N09", "N10", "L06", "L09", "L10", "L15", "L16"),
]


def said(files: dict[str, str]) -> list[Finding]:
    """Findings about texts by name."""
    sources = {name: decode(name, text.encode()) for name, text in files.items()}
    return list(lint_sources(sources, newest()).findings)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_our_own_units_are_clean(path: Path) -> None:
    """Of the recipes' own choices, which they may have reasons for, only BLOCKs count."""
    families = {rule.id: rule.family.split("_")[0] for rule in rules().values()}
    found = said({f"/etc/systemd/system/{path.name}": path.read_text()})
    ours = [f for f in found if families[f.rule] in ("systemd", "tiktoken", "weights", "build")]
    chosen = [f for f in found if families[f.rule] in ("memory", "cluster")]
    assert ours == []
    assert [f for f in chosen if f.verdict is Verdict.BLOCK] == []


def test_every_entry_that_a_file_can_show_has_a_case() -> None:
    there = {number for case in case_files.every() for number in case.numbers}
    assert set(NUMBERS) - there == set()


def test_known_keys() -> None:
    keys = systemd_known.known_keys()
    assert keys["Service"]["ExecStart"].kind == "exec"
    assert keys["Service"]["LimitMEMLOCK"] == systemd_known.KnownKey("limit", 255)
    assert "StartLimitIntervalSec" in keys["Unit"]
    assert "StartLimitIntervalSec" not in keys["Service"]
    assert keys["Service"]["PrivatePIDs"].version == 257
    assert min(len(keys["Unit"]), len(keys["Service"])) > 100


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("90", 90),
        ("20min", 1200),
        ("1h 30min", 5400),
        ("1.5min", 90),
        ("500ms", 0.5),
        ("2 weeks", 1209600),
        ("infinity", float("inf")),
        ("1M", 2629800),
        ("20mins", None),
        ("never", None),
        ("0x10", None),
        ("", None),
        ("5 # y", None),
    ],
)
def test_seconds(text: str, wanted: float | None) -> None:
    assert systemd_known.seconds(text) == wanted


UNIT = """\
[Service]
ExecStart=/opt/vllm/bin/vllm serve /srv/m --gpu-memory-utilization 0.8
Restart=always
RestartSec=60
"""
LIMIT = "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=3\n"


def rules_of(files: dict[str, str]) -> set[str]:
    """Ids of the rules that find something."""
    return {finding.rule for finding in said(files)}


def test_a_drop_in_completes_its_unit() -> None:
    unit, dropin = "/e/llm.service", "/e/llm.service.d/limit.conf"
    assert "restart-storm" in rules_of({unit: UNIT})
    assert "restart-storm" not in rules_of({unit: UNIT, dropin: LIMIT})
    assert "restart-storm" in rules_of({unit: UNIT, "/e/other.service.d/limit.conf": LIMIT})


def test_of_a_drop_in_alone_nothing_is_missing() -> None:
    dropin = "[Service]\nExecStart=\n" + UNIT.removeprefix("[Service]\n")
    found = rules_of({"/e/llm.service.d/run.conf": dropin})
    assert not found & {"restart-storm", "restart-soon", "path-of-venv"}


def test_units_of_two_machines_do_not_complete_each_other() -> None:
    units = {"/a/llm.service": UNIT, "/b/llm.service": UNIT}
    dropin = {"/a/llm.service.d/limit.conf": LIMIT}
    storms = [f.file for f in said({**units, **dropin}) if f.rule == "restart-storm"]
    assert storms == ["/b/llm.service"]


def test_an_environment_file_of_another_machine_is_not_read() -> None:
    exec_start = "ExecStart=/opt/vllm/bin/vllm serve /srv/m --gpu-memory-utilization 0.8\n"
    unit = f"[Service]\nUser=llm\nEnvironmentFile=llm.env\n{exec_start}"
    files = {f"/{place}/llm.service": unit for place in "ab"}
    files |= {"/a/llm.env": "A=1\n", "/b/llm.env": "VLLM_ATTENTION_BACKEND=FLASH_ATTN\n"}
    files |= {"/c/llm.service": unit}
    sources = {name: decode(name, text.encode()) for name, text in files.items()}
    units = [d for d in lint_sources(sources, newest()).documents if d.kind is Kind.UNIT]
    names = {unit.path: [item.name for item in unit.launches[0].env] for unit in units}
    assert names == {
        "/a/llm.service": ["A"],
        "/b/llm.service": ["VLLM_ATTENTION_BACKEND"],
        "/c/llm.service": [],
    }
