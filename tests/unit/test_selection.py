"""Selection of files, side by side with huggingface_hub's own filter."""

from __future__ import annotations

from huggingface_hub.utils import filter_repo_objects
from hypothesis import given
from hypothesis import strategies as st

from sparkwright.artifacts import HubFile
from sparkwright.selection import select

PATHS = [
    "README.md", "config.json", "model-00000-of-00002.safetensors", "original/model.bin",
    "original/deep/a.bin", "metal/model.bin", "docs/original_notes.md", "tokenizer/original/x",
    "A.MD", "w[1].bin", "w1.bin", ".gitattributes",
]  # fmt: skip
FILES = [HubFile(path, 10 + at, sha256="0" * 64) for at, path in enumerate(PATHS)]
PATTERNS = [
    "*", "*.md", "original", "./original/*", "/original/*", "original/", "original/*",
    "*original*", "metal/*", "w[1].bin", "w[[]1].bin", "model-0000?-of-*", ".*", "no/such/*", "*/",
]  # fmt: skip


@given(st.lists(st.sampled_from(PATTERNS)), st.lists(st.sampled_from(PATTERNS)))
def test_keeps_what_huggingface_hub_keeps(include: list[str], exclude: list[str]) -> None:
    theirs = list(
        filter_repo_objects(PATHS, allow_patterns=include or None, ignore_patterns=exclude)
    )
    chosen = select(FILES, include, exclude)
    assert [file.path for file in chosen.kept] == theirs
    assert {*chosen.kept, *chosen.skipped} == set(FILES)
    assert not {*chosen.kept} & {*chosen.skipped}


@given(st.text("ab/*?[]!.", max_size=8), st.text("ab/[].", min_size=1, max_size=8))
def test_any_pattern_means_the_same(pattern: str, path: str) -> None:
    theirs = list(filter_repo_objects([path], ignore_patterns=[pattern]))
    file = HubFile(path, 1, sha256="0" * 64)
    assert [item.path for item in select([file], [], [pattern]).kept] == theirs


def test_builtin_exclude_without_a_match_is_a_problem() -> None:
    plain = [HubFile("a.bin", 1, sha256="0" * 64)]
    chosen = select(plain, [], ["original/*", "mine/*"])
    assert chosen.problems == (
        'exclude "original/*" matches no file of the repository; correct or remove it',
    )
    assert chosen.warnings == (
        'exclude "mine/*" matches no file of the repository; correct or remove it',
    )


def test_include_without_a_match_is_a_problem() -> None:
    chosen = select(FILES, ["*.gguf", "*.md"], [])
    assert chosen.problems == (
        'include "*.gguf" matches no file of the repository; correct or remove it',
    )


def test_nothing_left_is_a_problem() -> None:
    chosen = select(FILES, ["*.md"], ["*"])
    assert chosen.problems == ("no file is left; the excludes drop everything that is included",)


def test_bytes_are_told() -> None:
    chosen = select(FILES, [], ["original/*", "metal/*"])
    assert chosen.problems == ()
    assert chosen.skipped_bytes == 13 + 14 + 15
    assert chosen.kept_bytes + chosen.skipped_bytes == sum(file.size for file in FILES)
