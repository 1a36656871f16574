"""Who gets which content of a bundle from the laptop, and who copies it: the planner alone."""

from __future__ import annotations

from sparkwright.push_site import Site

SIZES = {"a": 10, "b": 20, "c": 30, "d": 40}


def site(**wants: str) -> Site:
    """Machines at work, each with the contents that it lacks, one a letter."""
    found = Site(SIZES)
    for name, letters in wants.items():
        found.member(name).wants = set(letters)
        found.comes(name)
    return found


def has(found: Site, name: str, letters: str) -> None:
    """A machine has contents, under their own names."""
    found.member(name).has |= {letter: f"files/{letter}" for letter in letters}


def test_the_first_that_is_at_work_gets_what_nobody_has_and_the_next_only_the_rest() -> None:
    found = site(s1="abc", s2="bcd", s3="d")
    assert found.claims("s1") == {"a", "b", "c"}
    assert found.claims("s2") == {"d"}
    assert found.claims("s3") == set()
    assert found.sources("s3", "d") == ["s2"]
    assert found.claims("s1") == {"a", "b", "c"}  # the same, asked again


def test_what_another_machine_has_is_never_sent() -> None:
    found = site(s1="ab")
    found.member("s2").wants = set()
    has(found, "s2", "a")
    assert found.claims("s1") == {"b"}
    assert found.givers("s1", "a") == ["s2"]


def test_a_machine_that_did_not_come_holds_up_nobody() -> None:
    found = site(s1="a")
    found.member("s2").wants = {"a"}
    found.member("s2").parts = {"a": 9}
    assert found.claims("s1") == {"a"}
    assert found.peers("s1", "a") == []


def test_what_a_cut_left_decides_who_gets_the_rest() -> None:
    found = site(s1="ab", s2="ab")
    found.member("s2").parts = {"b": 15}
    assert found.claims("s1") == {"a"}
    assert found.claims("s2") == {"b"}
    # One that has begun is at other things: it would get it only in its next round.
    found = site(s1="b", s2="ab")
    found.member("s2").parts = {"b": 15}
    found.member("s2").begun = True
    assert found.claims("s1") == {"b"}


def test_after_a_failure_another_one_gets_it() -> None:
    found = site(s1="ab", s2="ab")
    found.claims("s1")
    has(found, "s1", "a")
    assert found.stranded("s2", "ab", ["s1"]) == set()
    found.leaves("s1", False)
    assert found.stranded("s2", "ab", ["s1"]) == {"a", "b"}
    assert found.claims("s2") == {"a", "b"}
    found.leaves("s2", True)
    assert found.over


def test_a_machine_that_is_done_still_gives() -> None:
    found = site(s1="a", s2="a")
    found.claims("s1")
    found.member("s1").wants = set()
    has(found, "s1", "a")
    found.leaves("s1", True)
    assert not found.over
    assert found.claims("s2") == set()
    assert found.sources("s2", "a") == ["s1"]


def test_who_is_not_reached_is_no_source_for_that_one_machine() -> None:
    found = site(s1="a", s2="a", s3="b")
    found.claims("s1")
    found.member("s2").lost.add("s1")
    assert found.stranded("s2", "a", ["s1"]) == {"a"}
    assert found.claims("s2") == {"a"}
    # A third one that wants it too and reaches the first passes it on.
    found = site(s1="a", s2="a", s3="a")
    found.claims("s1")
    found.member("s2").lost.add("s1")
    assert found.stranded("s2", "a", ["s1", "s3"]) == set()
    assert found.claims("s2") == set()
    found.member("s3").lost.add("s1")
    assert found.stranded("s2", "a", ["s1", "s3"]) == {"a"}


def test_two_that_want_the_same_do_not_wait_for_each_other() -> None:
    found = site(s1="a", s2="a")
    assert found.stranded("s1", "a", ["s2"]) == {"a"}
    assert found.stranded("s2", "a", ["s1"]) == {"a"}


def test_wrong_bytes_rule_out_one_content_of_one_machine() -> None:
    found = site(s1="ab")
    has(found, "s2", "ab")
    found.member("s1").wrong.add(("s2", "a"))
    assert found.claims("s1") == {"a"}
    assert found.sources("s1", "b") == ["s2"]


def test_one_that_cannot_give_is_asked_by_nobody() -> None:
    found = site(s1="a", s2="a")
    found.claims("s1")
    found.member("s1").mute = True
    assert found.claims("s2") == {"a"}
    assert found.peers("s2", "a") == []


def test_only_a_few_holders_have_to_give() -> None:
    found = site(s0="a")
    for number in range(1, 20):
        has(found, f"s{number}", "a")
    assert len(found.givers("s0", "a")) == 4
    assert found.peers("s0", "a") == found.givers("s0", "a")


def test_all_that_want_some_of_the_same_are_asked() -> None:
    found = site(s1="ab", s2="bc", s3="d")
    found.claims("s1")
    assert found.peers("s2", "bc") == ["s1"]
    assert found.peers("s1", "ab") == ["s2"]


def test_the_same_contents_have_the_same_key() -> None:
    assert Site(SIZES).item.key == Site(dict(reversed(SIZES.items()))).item.key
    assert Site(SIZES).item.key != Site({"a": 10}).item.key
