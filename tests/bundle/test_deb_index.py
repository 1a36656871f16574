"""Debian's lists: text, order of versions, relations."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkwright.deb_index import (
    KEPT,
    common,
    debs_of,
    installed,
    missing,
    parse,
    render,
    unmet,
    version_key,
)

PART = st.text("0123456789abzAZ.+~", min_size=1, max_size=8)
VERSION = st.builds(
    lambda epoch, first, rest, revision: f"{epoch}{first}{rest}{revision}",
    st.sampled_from(["", "0:", "1:", "12:"]),
    st.sampled_from("0123456789"),
    PART,
    st.one_of(st.just(""), st.builds(lambda text: f"-{text}", PART)),
)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.0~rc1", "1.0"),
        ("1.0", "1.0a"),
        ("1.0a", "1.0+"),
        ("1.9", "1.10"),
        ("1.0-1", "1.0-1.1"),
        ("2.0", "1:1.0"),
        ("1.0-1~deb12u1", "1.0-1"),
        ("13.0.88-1", "13.1.1.3-1"),
    ],
)
def test_versions_are_in_dpkgs_order(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_equal_versions_have_several_spellings() -> None:
    assert version_key("1.0") == version_key("0:1.0-0") == version_key("1.00")


@settings(max_examples=150, deadline=None)
@given(VERSION, VERSION)
def test_the_order_is_dpkgs_own(one: str, two: str) -> None:
    key = version_key(one) < version_key(two)
    if shutil.which("dpkg"):
        words = ["dpkg", "--compare-versions", one, "lt", two]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is key, (one, two, done.stderr)


LINE = st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1).map(str.strip)


@settings(max_examples=60)
@given(st.lists(st.fixed_dictionaries({"Package": LINE, "Depends": LINE}), max_size=4))
def test_what_is_rendered_is_read_again(rows: list[dict[str, str]]) -> None:
    rows = [row for row in rows if all(row.values())]
    assert parse(render(rows, KEPT)) == rows


def test_continued_lines_are_joined() -> None:
    text = "Package: a\nDepends: b,\n c,\n\td\n\nPackage: b\n# a comment\n"
    assert parse(text) == [{"Package": "a", "Depends": "b, c, d"}, {"Package": "b"}]


def package(name: str, version: str = "1.0", **fields: str) -> dict[str, str]:
    return {"Package": name, "Version": version, **fields}


@pytest.mark.parametrize(
    "wants",
    ["b", "b (>= 2.0)", "b:any (= 2.1-1)", "x | b (<< 3)", "virtual", "virtual (= 4)", "libc6"],
)
def test_a_relation_that_holds(wants: str) -> None:
    debs = [package("a", Depends=wants), package("b", "2.1-1", Provides="virtual (= 4), other")]
    assert unmet(debs, [package("libc6", "2.39")]) == []


@pytest.mark.parametrize("wants", ["x", "b (>> 2.1-1)", "virtual (>= 5)", "other (= 1)", "x | y"])
def test_a_relation_that_does_not_hold_is_named(wants: str) -> None:
    """A versioned relation needs a versioned Provides (Debian policy 7.5)."""
    debs = [package("a", **{"Pre-Depends": wants}), package("b", "2.1-1",
            Provides="virtual (= 4), other")]  # fmt: skip
    assert unmet(debs, []) == [f"a 1.0 wants {wants}"]


def test_wanted_packages_that_nobody_has() -> None:
    debs = [package("a"), package("b", "2.0")]
    words = ["a", "a=1.0", "a=1.1", "b", "c", "libc6"]
    assert missing(words, debs, [package("libc6")]) == ["a=1.1", "c"]


def test_only_installed_packages_count() -> None:
    states = ["install ok installed", "deinstall ok config-files", "hold ok installed"]
    text = "\n".join(f"Package: p{n}\nStatus: {s}\nVersion: 1\n" for n, s in enumerate(states))
    assert [p["Package"] for p in installed(text)] == ["p0", "p2"]


def test_what_machines_have_in_common_is_the_oldest_of_each() -> None:
    def status(**versions: str) -> str:
        return "\n".join(
            f"Package: {name}\nStatus: install ok installed\nArchitecture: arm64\nVersion: {v}\n"
            for name, v in versions.items()
        )

    found = common([status(a="1.10", b="1", c="1"), status(a="1.9", c="1", d="1")])
    assert [(p["Package"], p["Version"]) for p in found] == [("a", "1.9"), ("c", "1")]
    assert common([]) == []


def test_a_listing_without_a_field_is_refused() -> None:
    with pytest.raises(KeyError):
        debs_of("Package: a\nVersion: 1\n")
