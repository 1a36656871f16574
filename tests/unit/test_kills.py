"""The moments of `make kills` and its reading of a journal; the deaths themselves need machines."""

from __future__ import annotations

import pytest

from tests.kills.cases import AIMED, DEATHS, Moment, all_cases, chosen, moment
from tests.kills.program import headings
from tests.kills.proofs import overlaps
from tests.lab.host import LabError

STARTED, DONE = "39f53479d3a045ac8e11786248231fbf", "7ad2d189f7e94e70a38c781354912448"


def test_a_seed_gives_the_same_moments_whichever_cases_run() -> None:
    cases = all_cases(7)
    assert cases == all_cases(7) != all_cases(8)
    assert len(cases) == sum(DEATHS.values()) + len(AIMED) == 44
    assert chosen(cases, ["laptop-03"]) == [case for case in cases if case.name == "laptop-03"]
    assert len(chosen(cases, ["cable", "dpkg"])) == 11
    assert all(0 <= case.share < 1 for case in cases)
    assert len({case.share for case in cases}) > 40


def test_an_unknown_case_is_refused() -> None:
    with pytest.raises(LabError, match="--only lamp: no such case"):
        chosen(all_cases(1), ["lamp"])


@pytest.mark.parametrize(
    ("share", "wanted"),
    [
        (0.0, Moment(0, 0.0)),
        (0.05, Moment(0, 0.5)),
        (0.1, Moment(1, 0.0)),
        (0.5, Moment(2, 2.0)),
        (1.0, Moment(3, 1.0)),
    ],
)
def test_a_moment_is_counted_from_the_last_heading(share: float, wanted: Moment) -> None:
    assert moment(share, [1.0, 3.0, 9.0, 10.0]) == wanted


def test_headings_are_pyinfras_arrows() -> None:
    text = "--> Loading config...\n    [spark-1] No changes\n\n--> Starting operation: a | b\n"
    assert headings(text) == 2


def row(unit: str, message: str, boot: str = "1") -> dict[str, str]:
    return {"UNIT": f"sparkwright-{unit}.service", "MESSAGE_ID": message, "_BOOT_ID": boot}


def test_work_beside_other_work_of_its_label_is_found() -> None:
    first, second = "llama.cpp-0123456789ab", "llama.cpp-ba9876543210"
    good = [
        row(first, STARTED),
        row("hub-client-0123456789ab", STARTED),
        row(first, DONE),
        row(second, STARTED),
        row(second, STARTED, boot="2"),  # the power was cut in between
        {"_BOOT_ID": "2"},
    ]
    assert overlaps(good) == []
    assert overlaps([row(first, STARTED), row(second, STARTED)]) == [
        f"sparkwright-{second}.service was started beside sparkwright-{first}.service"
    ]
