"""Every rule against its case file; every rule has bad cases and a good one."""

from __future__ import annotations

from collections import defaultdict

import pytest

from sparkwright.lint.registry import Rule, rules
from tests.lint import case_files
from tests.lint.case_files import Case

ALL = list(case_files.every())


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.rule}-{case.name}"[:80])
def test_case(case: Case) -> None:
    found = case_files.findings(case)
    assert case_files.wrong(case, found) == []
    assert case_files.false_blocks(case, found) == []


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.rule}-{case.name}"[:80])
def test_expectations_are_complete(case: Case) -> None:
    for want in case.raw["expect"]:
        assert {"verdict", "line", "fix"} <= set(want)


@pytest.mark.parametrize("rule", rules().values(), ids=lambda rule: rule.id)
def test_rule_has_good_and_bad_cases(rule: Rule) -> None:
    by_rule: dict[str, list[Case]] = defaultdict(list)
    for case in ALL:
        by_rule[case.rule].append(case)
    cases = by_rule[rule.id]
    assert any(case.raw["expect"] for case in cases), "no bad case"
    assert any(not case.raw["expect"] for case in cases), "no good case"
    assert {case.family for case in cases} == {rule.family}


def test_case_files_are_of_rules() -> None:
    assert {case.rule for case in ALL} <= set(rules())
