"""`sparkwright weights` on the laptop: the question, words for snapshots, text, object, codes."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from sparkwright import cli_weights, weights_claims, weights_text
from sparkwright.paths import PROJECT
from sparkwright.status_ask import Answer
from sparkwright.weights_claims import GIB, Snapshot, Store, store
from tests.unit.fake_site import write_site
from tests.unit.machine_case import COMMIT, data

SCHEMA = json.loads((PROJECT / "docs/schemas/weights.json").read_text())
ROOT = "/srv/sparkwright/weights"
RECIPE = (("recipe", "tiny"), ("unit", "llm-tiny.service"), ("process", "llama-server (7)"))
HELD = Snapshot(f"{ROOT}/lab/a/{'a' * 12}", "lab/a", "a" * 12, 60 * GIB, 60 * GIB, 900.0,
                RECIPE, True)  # fmt: skip
BAD = dataclasses.replace(HELD, claims=RECIPE[:1], ok=False, wrong=("changed a.gguf",))
FREE = Snapshot(f"{ROOT}/lab/b/{'b' * 12}", "lab/b", "b" * 12, 9 * GIB, 8 * GIB, 100.0, (), True)
PART = dataclasses.replace(FREE, directory=f"{ROOT}/c/{'c' * 12}", repo="c", commit="c" * 12,
                           ok=None, claims=(("pin", "c"),))  # fmt: skip
GONE = dataclasses.replace(BAD, bytes=0, frees=0, last_use=0.0, wrong=("missing everything",))
STORES = [
    Store("spark-1", "", (HELD, FREE, PART), 500 * GIB),
    Store("spark-2", "no answer within 10 s"),
    Store("spark-3", "", (BAD, GONE), 5 * GIB, True, (f"{ROOT}/mine.gguf",), (f"{ROOT}/x/.s",)),
    Store("spark-4", "", (), GIB),
]


def test_the_question_names_recipes_and_pins(tmp_path: Path) -> None:
    site = data(**write_site(tmp_path), serve=["tiny", {"recipe": "nap", "state": "standby"}],
                weights_pinned=["lab/b"])  # fmt: skip
    program, text = weights_claims.question(site, "fast")
    found = json.loads(text)
    place = f"{ROOT}/lab/a/{COMMIT[:12]}"
    assert program == "weights_store.py"
    assert (found["root"], found["pins"], found["check"]) == (ROOT, ["lab/b"], "fast")
    assert found["recipes"][place]["names"] == ["nap", "tiny"]
    assert found["recipes"][place]["spec"]["dir"] == place
    program, text = weights_claims.question(site, "fast", apply=True, older_s=None, want_free=9)
    assert (program, json.loads(text)["want_free"]) == ("weights_prune.py", 9)


def test_an_answer(tmp_path: Path) -> None:
    site = data(**write_site(tmp_path), serve=["tiny"])
    place = f"{ROOT}/lab/a/{COMMIT[:12]}"
    row = {"directory": f"{ROOT}/lab/b/x", "repo": "lab/b", "commit": "x", "bytes": 5, "frees": 4,
           "last_use": 7.0, "claims": [{"by": "pin", "name": "lab/b"}],
           "check": {"ok": False, "missing": ["a"], "changed": ["b"]}}  # fmt: skip
    said = {"snapshots": [row], "absent": [place], "free": 9, "noatime": True, "foreign": ["/f"],
            "cut": ["/c", "/d"], "chosen": [row["directory"]],
            "removed": [{"directory": row["directory"], "why": "is used by x"},
                        {"directory": "/d", "why": ""}]}  # fmt: skip
    found = store(Answer("spark-1", site, said))
    one, two = found.snapshots
    assert (one.wrong, one.fate, one.state) == (("missing a", "changed b"), "is used by x",
                                                "damaged")  # fmt: skip
    removed = {**said, "removed": [{"directory": row["directory"], "why": ""}]}
    assert store(Answer("spark-1", site, removed)).snapshots[0].fate == "removed"
    assert store(Answer("spark-1", site, {**said, "removed": []})).snapshots[0].fate == "chosen"
    assert (two.directory, two.state, two.claims) == (place, "absent", (("recipe", "tiny"),))
    assert (found.noatime, found.cut, found.code) == (True, ("/c",), 1)
    assert store(Answer("spark-1", {}, None, "off")) == Store("spark-1", "off")


def test_exit_codes() -> None:
    fine = STORES[0]
    assert weights_text.code([fine, STORES[3]]) == 0  # unclaimed and unfinished need nobody
    assert weights_text.code([fine, STORES[2]]) == 1
    assert weights_text.code([fine, STORES[2], STORES[1]]) == 2
    unfinished = dataclasses.replace(BAD, ok=None, wrong=())
    assert weights_text.code([Store("a", "", (unfinished,), 1)]) == 1  # a recipe wants it


@pytest.mark.parametrize(
    ("fate", "apply", "code"),
    [("", False, 0), ("chosen", False, 1), ("removed", True, 0), ("is used by x", True, 1)],
)
def test_exit_codes_of_a_prune(fate: str, apply: bool, code: int) -> None:
    stores = [Store("a", "", (dataclasses.replace(FREE, fate=fate),), 1)]
    assert weights_text.pruned_code(stores, apply) == code
    assert weights_text.pruned_code([*stores, STORES[1]], apply) == 2


def golden(name: str, lines: list[str]) -> None:
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    assert text == (PROJECT / f"tests/golden/operate/{name}.txt").read_text()


def test_the_text() -> None:
    out = io.StringIO()
    Console(file=out, width=240, highlight=False).print(weights_text.table(STORES, 1000.0))
    golden("weights", [*out.getvalue().splitlines(), *weights_text.foot(STORES)])


def test_the_text_of_a_prune() -> None:
    fates = [(FREE, "chosen"), (PART, "chosen")]
    shown = [Store("a", "", tuple(dataclasses.replace(s, fate=f) for s, f in fates), 1),
             STORES[1]]  # fmt: skip
    fates = [(FREE, "removed"), (PART, "is used by x.service")]
    done = [Store("a", "", tuple(dataclasses.replace(s, fate=f) for s, f in fates), 1)]
    golden("weights-prune", [*weights_text.pruned(shown, False), "--- --apply",
                             *weights_text.pruned(done, True), "--- nothing",
                             *weights_text.pruned([STORES[3]], False)])  # fmt: skip


def test_the_object_is_as_its_schema_says() -> None:
    found = json.loads(json.dumps(weights_text.as_json(STORES, 0.0, 2)))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    states = [[s["state"] for s in m["snapshots"]] for m in found["machines"]]
    assert states == [["complete", "complete", "unfinished"], [], ["damaged", "absent"], []]
    assert (found["state"], found["machines"][1]["free_bytes"]) == ("unknown", None)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--apply"], "--apply: means nothing for list"),
        (["repair", "--free-gib", "0"], "--free-gib: means nothing for repair"),
        (["prune", "--deep"], "--deep: means nothing for prune"),
        (["prune", "--free-gib", "-1"], "no number of 0 or more"),
        (["prune", "--unused-days", "nan"], "no number of 0 or more"),
        (["remove"], "invalid choice"),
    ],
)
def test_bad_words(words: list[str], wrong: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        cli_weights.main(words)
    assert ended.value.code == 2
    assert wrong in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "seconds"),
    [([], 60), (["prune"], 60), (["verify", "--deep"], 900), (["repair"], 900),
     (["repair", "--timeout", "5"], 5)],
)  # fmt: skip
def test_a_machine_has_the_time_that_the_work_takes(words: list[str], seconds: float) -> None:
    assert cli_weights.checked(words).timeout == seconds
