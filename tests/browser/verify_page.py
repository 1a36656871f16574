"""The page of `sparkwright verify --html` on a phone and on a laptop, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkwright.verify_checks import DOCS, Check
from sparkwright.verify_text import page
from tests.browser.pages import SCHEMES, WIDTHS, Seen, opened

LONG = "/srv/sparkwright/weights/an-organisation/" + "a-very-long-name-of-a-model-" * 8
CHECKS = [
    *[
        Check(f"spark-{n}", "gpt-oss-120b-llamacpp", name, True, seen, "what is right", "", DOCS)
        for n in (1, 2)
        for name, seen in (("state", "running"), ("question", "'Paris'"), ("weights", LONG))
    ],
    Check("spark-3", "a-recipe-with-a-name-that-is-as-long-as-recipes-get-to-be", "question", False,
          f"content '<script>alert(1)</script>' lacks 'Paris'; likely cause: {LONG}",
          "the answer that the recipe expects", "sparkwright logs a-recipe --limit spark-3",
          f"{DOCS}#services"),
    Check("spark-4", "", "reached", None, "no answer within 10 s", "an answer",
          "sparkwright status --limit spark-4", f"{DOCS}#login-and-sudo"),
]  # fmt: skip


@pytest.fixture(scope="module", params=[(w, s) for w in WIDTHS for s in SCHEMES], ids=str)
def seen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    width, scheme = request.param
    file: Path = tmp_path_factory.mktemp("page") / "verify.html"
    file.write_text(page(CHECKS, 0.0))
    with opened(file, width, scheme) as found:
        found.keep(f"verify-{width}-{scheme}")
        yield found


def test_nobody_scrolls_to_the_side(seen: Seen) -> None:
    assert seen.overflow() == 0


def test_it_asks_for_nothing_and_complains_about_nothing(seen: Seen) -> None:
    assert seen.requests == []
    assert seen.errors == []


def test_every_check_is_seen(seen: Seen) -> None:
    texts = [text for text in seen.texts() if text["shown"]]
    width = seen.page.viewport_size["width"] if seen.page.viewport_size else 0
    assert all(text["left"] >= 0 and text["right"] <= width for text in texts)
    words = "\n".join(text["text"] for text in texts)
    for check in CHECKS:
        assert f"{check.name}: {check.seen}" in words
        assert check.ok or all(part in words for part in (check.wanted, check.look, check.docs))
    assert len(seen.page.query_selector_all(".c")) == len(CHECKS)


def test_every_text_can_be_read(seen: Seen) -> None:
    texts = seen.texts()
    assert min(text["contrast"] for text in texts) >= 4.5, min(texts, key=lambda t: t["contrast"])
    assert min(text["size"] for text in texts) >= 14


def test_what_a_model_says_is_text(seen: Seen) -> None:
    assert seen.page.query_selector("script") is None
