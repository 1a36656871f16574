"""`sparkwright verify`: from answers to checks, its text, object and page; remedies that exist."""

from __future__ import annotations

import ast
import json
import re
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from sparkwright import fabric_bandwidth, fabric_verify, verify_text
from sparkwright.cli import COMMANDS, main
from sparkwright.paths import FILES, PROJECT
from sparkwright.status_ask import Answer
from sparkwright.verify_checks import ANCHORS, DOCS, WANTED, Check, across, checks, code, fabric
from tests.unit.machine_case import program
from tests.unit.test_status import OFF, machine, row

agent: Any = program("status_verify")
SCHEMA = json.loads((PROJECT / "docs/schemas/verify.json").read_text())
FINE = {"question": {"seen": "'Paris'"}, "log": {"seen": "CUDA0"}}
WRONG = {
    **FINE,
    "weights": {"seen": "3 files", "wrong": ["changed a.gguf"]},
    "question": {"seen": "''", "wrong": ["content '<b>' lacks 'Paris'; likely cause: x"]},
}


def made(*told: Any, **changes: Any) -> list[Check]:
    return checks(machine(row(**changes)), said(list(told)))


def said(units: Any, name: str = "spark-1", cluster: Any = None, **more: Any) -> Answer:
    """What a machine answers."""
    full = {"units": units, "machine": {}, "versions": {"kernel": "6.17", "driver": "580.1"}}
    return Answer(name, {"cluster": cluster or {}}, {**full, **more})


def by_name(found: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in found}


def test_a_healthy_recipe() -> None:
    found = made(FINE)
    assert [check.name for check in found] == ["state", "as wanted", "question", "log"]
    assert code(found) == 0


def test_what_is_wrong_says_how_to_look_closer() -> None:
    found = made(WRONG)
    assert code(found) == 1
    question, weights = by_name(found)["question"], by_name(found)["weights"]
    assert question.seen.startswith("content '<b>' lacks 'Paris'")
    assert question.wanted == WANTED["question"]
    assert question.look == "sparkwright logs tiny --limit spark-1 --causes"
    assert weights.look == "sparkwright check --limit spark-1 --data verify=deep"


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"state": "failed"}, "state"), ({"drift": ("a: differs",)}, "as wanted")],
)
def test_units_that_are_not_as_wanted(changes: dict[str, Any], name: str) -> None:
    running = changes.get("state", "running") == "running"
    found = made(*([FINE] if running else []), **changes)
    assert not by_name(found)[name].ok
    assert code(found) == 1


def test_what_could_not_be_asked_is_never_well() -> None:
    assert [check.ok for check in checks(OFF, None)] == [None]
    silent = checks(machine(row()), Answer("spark-1", {}, None, "no answer within 9 s"))
    assert by_name(silent)["question"].ok is None
    assert by_name(silent)["question"].seen == "no answer within 9 s"
    assert code(silent) == 2
    assert code(made(FINE, drift=None, why="lock: no commit")) == 2


def test_programs_of_another_version_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upgrade of the laptop alone: what it needs of the machine's programs is not there"""
    monkeypatch.setitem(sys.modules, "ask", ModuleType("ask"))
    unit = {"unit": "llm-tiny.service", "ask": {"system": ""}, "env": {}, "weights": None}
    told = agent.verify("/nowhere", unit)
    found = by_name(made(told))["question"]
    assert found.ok is None
    assert found.seen.startswith("programs here are of another version (module 'ask' has no att")
    assert found.seen.endswith("run `sparkwright converge`")


def test_builds_are_compared_between_machines() -> None:
    one, same = machine(row()), machine(row(machine="spark-2"))
    other = machine(row(machine="spark-3", build="b2"))
    assert across([one]) == []
    assert [check.ok for check in across([one, same])] == [True]
    (found,) = across([one, same, other])
    assert not found.ok
    assert found.seen == "b11312 0c1e5709 on spark-1, spark-2; b2 on spark-3"


PAIR = {
    "name": "pair-a",
    "mtu": 9000,
    "members": [
        {"name": "spark-1", "fabric": ["10.0.0.10", "10.0.1.10"]},
        {"name": "spark-2", "fabric": ["10.0.0.11", "10.0.1.11"]},
    ],
}


def test_a_member_of_a_cluster_is_asked_about_its_links() -> None:
    own, other = ["10.0.0.10", "10.0.1.10"], ["10.0.0.11", "10.0.1.11"]
    wanted = {"mtu": 9000, "own": own, "others": {"spark-2": other}}
    assert fabric("spark-1", {"cluster": PAIR}) == wanted
    assert fabric("spark-3", {"cluster": PAIR}) is None
    assert fabric("spark-1", {"cluster": {}}) is None
    assert fabric("spark-1", {}) is None


@pytest.mark.parametrize(
    ("told", "ok"),
    [
        ({"seen": "2 links"}, True),
        ({"seen": "2 links", "wrong": ["eth1 is down"]}, False),
        ({"seen": "", "unknown": "ping is not installed"}, None),
    ],
)
def test_the_fabric(told: dict[str, Any], ok: bool | None) -> None:
    found = by_name(checks(machine(row()), said([FINE], machine={"fabric": told})))["fabric"]
    assert found.ok is ok
    assert found.seen == (told.get("unknown") or told.get("wrong", [told["seen"]])[0])


def test_members_of_a_cluster_are_alike() -> None:
    older = {"kernel": "6.17", "driver": "580.0"}
    one, two = said([], cluster=PAIR), said([], "spark-2", PAIR)
    lagging, alone = said([], "spark-2", PAIR, versions=older), said([], "spark-3", versions=older)
    off = Answer("spark-2", {"cluster": PAIR}, None, "no answer")
    assert [check.ok for check in across([], [one, two, alone])] == [True]
    (found,) = across([], [one, lagging])
    assert (found.name, found.recipe, found.ok) == ("same versions", "pair-a", False)
    assert "driver 580.0, kernel 6.17 on spark-2" in found.seen
    assert across([], [one, off]) == []


def anchors_of(document: str) -> set[str]:
    """Anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^## (.+)$", (PROJECT / document).read_text(), re.M)
    return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_documents_say_more_about_every_check() -> None:
    anchors = anchors_of(DOCS)
    names = {*WANTED, *ANCHORS, "state", "halves", "same libraries", fabric_bandwidth.NAME}
    assert names <= {*SCHEMA["properties"]["checks"]["items"]["properties"]["name"]["enum"]}
    found = [*ALL, *across([machine(row()), machine(row(machine="spark-2"))])]
    assert {*ANCHORS.values(), *(check.docs.partition("#")[2] for check in found)} <= anchors
    assert all(check.docs.startswith(f"{DOCS}#") for check in found)
    place, _, anchor = fabric_verify.DOCS.partition("#")
    assert anchor in anchors_of(place)


ALL = [*made(WRONG), *checks(OFF, None)]


def test_the_object_is_as_its_schema_says() -> None:
    found = json.loads(json.dumps(verify_text.as_json(ALL, 0.0)))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert found["state"] == "unknown"


def test_the_text() -> None:
    golden = PROJECT / "tests/golden/operate/verify.txt"
    assert "\n".join(verify_text.lines(ALL)) + "\n" == golden.read_text()


class Page(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_needs_nothing_else_and_escapes_what_a_model_says() -> None:
    page = Page(verify_text.page(ALL, 0.0))
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert all(not {"src", "href"} & set(attrs) for _, attrs in page.tags)
    assert ("meta", {"name": "viewport", "content": "width=device-width,initial-scale=1"}) in (
        page.tags
    )
    assert any("content '<b>' lacks 'Paris'" in text for text in page.texts)
    assert [tag for tag, attrs in page.tags if attrs.get("class") == "c WRONG"] == ["div"] * 2


# --- the program ---


LINE, NOT = "using device CUDA0", "using device CPU"


@pytest.mark.parametrize(
    ("log", "begins", "record", "ok", "seen"),
    [
        (LINE, True, "", True, "device CUDA0"),
        # A journal is bounded: the start of a server that runs for weeks is dropped.
        ("GET /health", False, '{"invocation": "a", "asked": "x"}', True, "when this start was"),
        ("GET /health", False, '{"invocation": "b", "asked": "x"}', None, "restart the unit, then"),
        ("GET /health", False, '{"invocation": "a", "asked": "y"}', None, "restart the unit, then"),
        ("GET /health", False, "", None, "restart the unit, then converge"),
        ("GET /health", True, '{"invocation": "a", "asked": "x"}', False, "no line like"),
        (NOT, False, '{"invocation": "a", "asked": "x"}', False, f"the journal says '{NOT}'"),
    ],
)  # fmt: skip
def test_the_log_of_a_start(
    log: str, begins: bool, record: str, ok: bool | None, seen: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.syspath_prepend(str(FILES / "opt/sparkwright/lib"))
    ask, journal = import_module("ask"), import_module("ask_journal")
    monkeypatch.setattr(ask, "ask", lambda spec: ({"content": "Paris"}, []))
    monkeypatch.setattr(journal, "journal", lambda spec: log)
    monkeypatch.setattr(journal, "begins", lambda spec: begins)
    monkeypatch.setattr(journal, "driver_errors", lambda spec: [])
    (tmp_path / "record").write_text(record)
    spec = {"unit": "a.service", "invocation": "a", "asked": "x", "system": "", "notes": [],
            "long_question": "", "log_must": [LINE], "log_must_not": [NOT],
            "record": str(tmp_path / "record")}  # fmt: skip
    check = by_name(made(agent.asked(spec)))["log"]
    assert check.ok is ok
    assert seen in check.seen


def test_the_environment_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        stdout = "self\n"

    monkeypatch.setattr(agent.subprocess, "run", lambda *a, **k: Done())
    path = next(
        entry.split(b"=", 1)[1].decode()
        for entry in Path("/proc/self/environ").read_bytes().split(b"\0")
        if entry.startswith(b"PATH=")
    )
    assert agent.environment("u", {"PATH": path}) == {"offline": {"seen": "1 of 1 variables"}}
    found = agent.environment("u", {"NOT_THERE_AT_ALL": "1"})["offline"]
    assert found["wrong"] == ["NOT_THERE_AT_ALL is not set, not 1"]


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ('{"ok": true, "missing": [], "changed": []}', None),
        ('{"ok": false, "missing": ["a"], "changed": ["b"]}', ["missing a", "changed b"]),
        ('{"ok": false, "missing": [], "changed": []}', ["no manifest"]),
        ("", ["it fell"]),
    ],
)
def test_the_agents_verdict(
    monkeypatch: pytest.MonkeyPatch, said: str, wrong: list[str] | None
) -> None:
    class Done:
        stdout, stderr = said, "it fell"

    monkeypatch.setattr(agent.subprocess, "run", lambda *a, **k: Done())
    assert agent.weights("/lib", {"files": [1]}, False)["weights"].get("wrong") == wrong


LINK = {"ifname": "eth1", "mtu": 9000, "flags": ["UP", "LOWER_UP"],
        "addr_info": [{"local": "10.0.0.10"}]}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, None),
        ({"mtu": 1500}, "eth1 has MTU 1500, not 9000"),
        ({"flags": ["UP", "NO-CARRIER"]}, "eth1 with 10.0.0.10 is down"),
        ({"addr_info": []}, "10.0.0.10 is on no interface"),
        ({"ping": 1}, "10.0.0.11 does not answer 8972 bytes in one piece from 10.0.0.10"),
    ],
)
def test_links_and_paths(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], wrong: str | None
) -> None:
    def run(argv: list[str], **_: Any) -> Any:
        class Done:
            returncode, stdout, stderr = change.get("ping", 0), "", ""

        if argv[0] == "ip":
            Done.stdout = json.dumps([{**LINK, **change}])
        else:
            assert argv[-1] == "10.0.0.11"
            assert argv[argv.index("-M") + 1 : argv.index("-I")] == ["do", "-s", "8972"]
        return Done()

    monkeypatch.setattr(agent.subprocess, "run", run)
    spec = {"mtu": 9000, "own": ["10.0.0.10"], "others": {"spark-2": ["10.0.0.11"]}}
    assert agent.fabric(spec)["fabric"].get("wrong") == ([wrong] if wrong else None)


def test_without_ping_the_fabric_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(argv: list[str], **_: Any) -> Any:
        if argv[0] == "ping":
            raise FileNotFoundError

        class Done:
            stdout = "[]"

        return Done()

    monkeypatch.setattr(agent.subprocess, "run", run)
    spec = {"mtu": 9000, "own": ["10.0.0.10"], "others": {"spark-2": ["10.0.0.11"]}}
    assert agent.fabric(spec)["fabric"]["unknown"] == "ping is not installed"


def test_versions() -> None:
    found = agent.versions()
    assert set(found) == {"kernel", "driver"}
    assert all(found.values())


# --- remedies ---


def printed() -> list[str]:
    """Every string of the package that names one of our commands."""
    found = []
    for path in sorted((PROJECT / "sparkwright").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            found += re.findall(r"(?:`|example: |run: )sparkwright ([a-z]+[^`\n;]*)", text)
            # A whole string that is a command; others only begin with the name.
            begin = re.match(r"sparkwright ([a-z]+)[^`\n;]*", text)
            found += [begin[0].partition(" ")[2]] if begin and begin[1] in COMMANDS else []
    return found


def test_every_remedy_is_a_command_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    remedies = printed()
    assert len(remedies) > 10
    for text in remedies:
        command, *rest = text.split()
        assert command in COMMANDS, text
        with pytest.raises(SystemExit):
            main([command, "--help"])
        shown = capsys.readouterr().out
        for option in [word for word in rest if word.startswith("--")]:
            assert option.split("=")[0] in shown, text


@pytest.mark.parametrize("command", ["fit", "logs", "report", "status", "verify"])
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert f"example: sparkwright {command} " in shown
    assert "exit code: 0" in shown
