"""Quoting: the written form, and what is refused. That it is right is proved in lab_tests."""

from __future__ import annotations

import re

import pytest

from sparkwright.errors import SparkwrightError
from sparkwright.quoting import LINE_MAX_BYTES, environment, exec_line, exec_word, plain_text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("--port", "--port"),
        ("/srv/m-00001-of-00003.gguf", "/srv/m-00001-of-00003.gguf"),
        ("", '""'),
        ("a b", '"a b"'),
        ("100%", '"100%%"'),
        ("$HOME ${X}", '"$$HOME $${X}"'),
        ('{"a":1}', r'"{\"a\":1}"'),
        ("back\\slash\n\t", r'"back\\slash\n\t"'),
        ("\x01\x7f\u0085\u202e", r'"\x01\x7f\u0085\u202e"'),
        (";", '";"'),
        ("#", '"#"'),
        ("日本", '"日本"'),
    ],
)
def test_exec_word(text: str, written: str) -> None:
    assert exec_word(text) == written


def test_environment_keeps_dollars_single() -> None:
    assert environment("URL", "http://a:p%40@h/$x") == 'Environment="URL=http://a:p%%40@h/$x"'
    assert environment("EMPTY", "") == 'Environment="EMPTY="'


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "É", "A\n"])
def test_environment_refuses_bad_names(name: str) -> None:
    with pytest.raises(SparkwrightError, match="takes letters, digits and '_' only"):
        environment(name, "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\0b", "has a NUL byte"),
        ("\ud800", "U+D800 is not valid text"),
        ("\udcff", "U+DCFF is not valid text"),
        ("\ufdd0", "U+FDD0 is not valid text"),
        ("\U0001ffff", "U+1FFFF is not valid text"),
        ("a" * 131_072, "131072 bytes, Linux passes 131071"),
        ("é" * 65_536, "131072 bytes, Linux passes 131071"),
    ],
)
def test_what_systemd_cannot_carry_is_refused(text: str, said: str) -> None:
    with pytest.raises(SparkwrightError, match=re.escape(said)):
        exec_word(text)
    with pytest.raises(SparkwrightError, match="environment variable A"):
        environment("A", text)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("llama-server", "is not an absolute path"),
        ("~/llama-server", "is not an absolute path"),
        ("-/bin/x", "is not an absolute path"),
        ("", "is not an absolute path"),
        ("/bin/it's", "has a control character, quote or backslash"),
        ("/bin/a\\b", "has a control character, quote or backslash"),
        ("/bin/a\nb", "has a control character, quote or backslash"),
        ("/bin//x", "is not in its shortest form"),
        ("/bin/./x", "is not in its shortest form"),
        ("/bin/../x", "is not in its shortest form"),
        ("/bin/", "is not in its shortest form"),
    ],
)
def test_program_paths_that_systemd_refuses_or_changes(path: str, said: str) -> None:
    with pytest.raises(SparkwrightError, match=said):
        exec_line([path])


def test_exec_line_layout_and_prefix() -> None:
    line = exec_line(["/bin/x", "--a", "1", "--b", "c d"], root=True)
    assert line == '+/bin/x \\\n    --a 1 \\\n    --b "c d"'
    assert exec_line(["/o p/x"], root=True) == '"+/o p/x"'
    assert exec_line(["/o/$x"]) == '"@/o/$x" "/o/$$x"'


def test_exec_line_refuses_what_is_longer_than_a_line() -> None:
    with pytest.raises(SparkwrightError, match=f"systemd reads {LINE_MAX_BYTES}"):
        exec_line(["/bin/x", *["a" * 131_000] * 9])
    with pytest.raises(SparkwrightError, match="it is empty"):
        exec_line([])


@pytest.mark.parametrize("text", ["a\nb", "a\\", " a", "a ", "a\tb", "a\u2028b", "\0"])
def test_plain_text_refuses(text: str) -> None:
    with pytest.raises(SparkwrightError):
        plain_text(text)


def test_plain_text_doubles_percent() -> None:
    assert plain_text('50% "of" it\\s $x') == '50%% "of" it\\s $x'
