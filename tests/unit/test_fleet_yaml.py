"""What can be wrong with a YAML file as such, with the exact messages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkwright.errors import Problems, SparkwrightError
from sparkwright.yamlfile import MAX_BYTES, load_map, read_map

BROKEN = {
    "empty": (b"", "f.yaml: the file is empty; copy the example"),
    "comments_only": (b"# nothing\n\n", "f.yaml: the file is empty; copy the example"),
    "null": (b"~\n", "f.yaml: the file must be a map (key: value), not a single value; {m}"),
    "list": (b"- a\n", "f.yaml: the file must be a map (key: value), not a list; {m}"),
    "text": (b"hello", "f.yaml: the file must be a map (key: value), not a single value; {m}"),
    "tab": (
        b"a:\n\tb: 1\n",
        "f.yaml: line 2: begins with a tab; YAML indents with spaces; replace the tab by spaces",
    ),
    "tab_after_spaces": (
        b"a:\n  b: 1\n  \tc: 1\n",
        "f.yaml: line 3: begins with a tab; YAML indents with spaces; replace the tab by spaces",
    ),
    "duplicate": (b"a: 1\nb: 2\na: 3\n", "f.yaml: a is there twice (lines 1 and 3); keep one"),
    "duplicate_below": (
        b"a:\n  b: 1\n  b: 1\n",
        "f.yaml: a: b is there twice (lines 2 and 3); keep one",
    ),
    "duplicate_in_list": (
        b"a:\n  - {b: 1,\n     b: 2}\n",
        "f.yaml: a/0: b is there twice (lines 2 and 3); keep one",
    ),
    "not_utf8": (b"a: 1\nb: \xe9\n", "f.yaml: line 2: is not UTF-8 text; save the file as UTF-8"),
    "utf16": ("a: 1".encode("utf-16"), "f.yaml: line 1: is not UTF-8 text; save the file as UTF-8"),
    "control": (b"a: 1\nb: \x01\n", "f.yaml: line 2: holds a control character; remove it"),
    "alias": (
        b"a: &x [1]\nb: *x\n",
        "f.yaml: line 2: aliases (*x) are not used; write the value out, or put it under defaults",
    ),
    "deep": (b"a: " + b"[" * 50_000, "f.yaml: line 1: is nested deeper than 20 levels; {b}"),
    "number_key": (b"1: x\n", "f.yaml: the key 1 (line 1) is not text; put it in quotes"),
    "map_key": (b"{a: 1}: x\n", "f.yaml: the key of this map (line 1) is not text; {q}"),
    "tag": (b"a: !!int x\n", 'f.yaml: a: cannot read "x" as tag:yaml.org,2002:int; {t}'),
    "object_tag": (b"a: !boom {}\n", "f.yaml: a: the tag !boom is not known here; remove it"),
    "python_tag": (
        b"a: !!python/object/apply:os.system [id]\n",
        "f.yaml: a: the tag tag:yaml.org,2002:python/object/apply:os.system is not known here; "
        "remove it",
    ),
    "colon": (
        b"a: b: c\n",
        "f.yaml: line 1: is not YAML (mapping values are not allowed here); {s}",
    ),
    "open_quote": (
        b'a: "b\n',
        "f.yaml: line 2: is not YAML (found unexpected end of stream); {s}",
    ),
    "two_documents": (
        b"a: 1\n---\nb: 2\n",
        "f.yaml: line 2: is not YAML (but found another document); {s}",
    ),
    "too_big": (
        b"a: " + b"x" * MAX_BYTES,
        f"f.yaml: is larger than {MAX_BYTES} bytes; is this the right file?",
    ),
}
HINTS = {
    "m": "copy the example",
    "b": "is a bracket missing?",
    "q": "put it in quotes",
    "t": "remove the tag",
    "s": "check the colons, quotes and indentation there and on the line above",
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_says_where_and_what(tmp_path: Path, case: str) -> None:
    content, message = BROKEN[case]
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    with pytest.raises(SparkwrightError) as error:
        load_map(path, missing="copy the example")
    assert str(error.value) == message.format(**HINTS)


def test_an_alias_bomb_is_refused_without_being_built(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    path = tmp_path / "f.yaml"
    path.write_text("\n".join(rows))
    with pytest.raises(SparkwrightError, match=r"line 2: aliases \(\*a0\) are not used"):
        load_map(path)


def test_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(SparkwrightError) as error:
        load_map(tmp_path / "none.yaml", missing="copy the example")
    assert str(error.value) == "none.yaml: no such file; copy the example"
    with pytest.raises(SparkwrightError) as error:
        load_map(tmp_path, label="x.yaml")
    assert str(error.value) == (
        f"x.yaml: cannot be read (Is a directory); look at: ls -ld {tmp_path}"
    )


def test_an_unreadable_file_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a: 1")

    def refuse(*_args: object, **_kwargs: object) -> object:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything, whatever the mode
    with pytest.raises(SparkwrightError) as error:
        load_map(path)
    assert str(error.value) == (
        f"f.yaml: cannot be read (Permission denied); look at: ls -ld {path}"
    )


def test_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: x\r\nb:\r\n  c: 2\r\n")
    assert load_map(path) == {"a": "x", "b": {"c": 2}}


def test_only_true_and_false_are_booleans_and_only_plain_numbers_are_numbers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(
        "{a: on, b: no, c: yes, d: 0600, e: 2026-01-01, f: 12:30, g: 1_000, h: none, i: .inf,"
        " j: 1234567890123456789012345678901234567890, k: true, l: 1.5, m: 1e3, n: 0x10, o: -1}"
    )
    values = load_map(path)
    assert list(values.values()) == [
        *("on", "no", "yes", "0600", "2026-01-01", "12:30", "1_000", "none", ".inf"),
        "1234567890123456789012345678901234567890",
        *(True, 1.5, 1000.0, 16, -1),
    ]
    assert values["k"] is True


def test_an_empty_file_is_told_after_problems_of_other_files(tmp_path: Path) -> None:
    problems = Problems()
    problems.add("other.yaml", "is broken")
    (tmp_path / "f.yaml").write_text("")
    assert read_map(tmp_path / "f.yaml", problems) is None
    assert [str(problem) for problem in problems] == [
        "other.yaml: is broken",
        "f.yaml: the file is empty",
    ]
