"""The hub's command line: its options changed their meaning with huggingface_hub 1.0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Command, Document, Word
from sparkwright.lint.registry import file_rule

_FILTERS: Final = ("--exclude", "--include")
_PIN: Final = re.compile(r"huggingface[-_]hub(?:\[[\w,-]+\])?\s*(==|<=|<|~=|>=)\s*v?(\d+)\.(\d+)")


def downloads(doc: Document) -> Iterator[tuple[Command, list[Word]]]:
    """`hf download` and `huggingface-cli download` with the words behind it."""
    for command in doc.commands:
        words = list(command.argv)
        if command.name in ("uv", "uvx", "pipx"):
            names = [i for i, w in enumerate(words) if w.text in ("hf", "huggingface-cli")]
            words = words[names[0] :] if names else []
        name = (words[0].text or "").rsplit("/", 1)[-1] if words else ""
        if name in ("hf", "huggingface-cli") and [w.text for w in words[1:2]] == ["download"]:
            yield command, words


def old_client(docs_text: str, words: Sequence[Word]) -> bool | None:
    """Whether the client is older than 1.0: by its name, by a pin in the file; None = unknown."""
    if words and (words[0].text or "").endswith("huggingface-cli"):
        return True
    for sign, major, minor in _PIN.findall(docs_text):
        version = (int(major), int(minor))
        if sign in ("==", "~=", ">="):
            return version < (1, 0) if sign != ">=" or version >= (1, 0) else None
        return version <= (1, 0)
    return None


def _filters(words: Sequence[Word]) -> dict[str, list[tuple[Word, list[Word]]]]:
    """Option -> each of its places with the plain words behind it."""
    found: dict[str, list[tuple[Word, list[Word]]]] = {}
    for at, word in enumerate(words):
        name, equals, value = (word.text or "").partition("=")
        if name not in _FILTERS:
            continue
        values = [Word(value, value, word.at)] if equals else []
        for later in () if equals else words[at + 1 :]:
            if (later.text or later.raw).startswith("-"):
                break
            values.append(later)
        found.setdefault(name, []).append((word, values))
    return found


def _python(name: str, values: Sequence[Word]) -> str:
    patterns = ", ".join(repr(word.text or word.raw) for word in values)
    key = "ignore_patterns" if name == "--exclude" else "allow_patterns"
    return f"snapshot_download(…, {key}=[{patterns}])"


@file_rule(Verdict.WARN, Verdict.BLOCK)
def filter_repeated(doc: Document, ctx: Context) -> Iterator[Found]:
    """A repeated --exclude counts only once before huggingface_hub 1.0.

    Up to 0.36 the option takes a list, and the last one replaces those before it: original/ of
    gpt-oss-120b is downloaded after all, three times the size. From 1.0 on it is repeated.

    Bad:
        huggingface-cli download openai/gpt-oss-120b --exclude 'original/*' --exclude 'metal/*'

    Good:
        python -c "from huggingface_hub import snapshot_download as s
        s('openai/gpt-oss-120b', local_dir='/srv/m', ignore_patterns=['original/*', 'metal/*'])"

    Source: ai-dynamo/dynamo#3610 (tried: huggingface_hub 0.34.4, 0.36.0, 2.0.0, 2.4.0)
    """
    for _, words in downloads(doc):
        old = old_client(doc.text, words)
        for name, places in _filters(words).items():
            if len(places) < 2 or old is False:
                continue
            values = [word for _, some in places for word in some]
            last = places[-1][1][-1].text if places[-1][1] else ""
            joined = " ".join(word.raw for word in values)
            yield Found(
                places[0][0].at, f"before huggingface_hub 1.0 only the last {name} counts",
                f"call {_python(name, values)}, or for an old client {name} {joined}",
                sees=f"{name} {last}", verdict=Verdict.BLOCK if old else Verdict.WARN,
            )  # fmt: skip


@file_rule(Verdict.BLOCK)
def filter_list(doc: Document, ctx: Context) -> Iterator[Found]:
    """Several patterns behind one --exclude are file names since huggingface_hub 1.0.

    The second pattern is taken as a file to fetch, and the filter is dropped with a warning. With
    three patterns it is turned around: the client fetches what was to be left out, and exits 0.

    Bad:
        hf download openai/gpt-oss-120b --exclude 'original/*' 'metal/*' --local-dir /srv/m

    Good:
        hf download openai/gpt-oss-120b --exclude 'original/*' --exclude 'metal/*' \\
            --local-dir /srv/m

    Source: meta-models/meta-oss-cookbook#26 (tried: huggingface_hub 2.0.0, 2.4.0)
    """
    for _, words in downloads(doc):
        if old_client(doc.text, words):
            continue
        for name, places in _filters(words).items():
            for word, values in places:
                if len(values) < 2:
                    continue
                rest = values[1:]
                what = "its name" if len(rest) == 1 else "names to fetch"
                each = " ".join(f"{name} {value.raw}" for value in values)
                yield Found(
                    rest[0].at, f"{rest[0].raw} is {what}, and {word.text} is ignored",
                    f"write {each}, or call {_python(name, values)}",
                    sees=" ".join(value.text or value.raw for value in rest),
                )  # fmt: skip


@file_rule(Verdict.WARN)
def filter_pattern(doc: Document, ctx: Context) -> Iterator[Found]:
    """A pattern that matches nothing in a repository, or too much.

    Paths have no leading `/` or `./`. `original` is a file of that name only; `*original*` also
    drops `docs/original_notes.md`.

    Bad:
        hf download openai/gpt-oss-120b --exclude './original/*' --local-dir /srv/m

    Good:
        hf download openai/gpt-oss-120b --exclude 'original/*' --local-dir /srv/m

    Source: huggingface/huggingface_hub#2597 (tried: huggingface_hub 0.34.4, 2.4.0)
    """
    for _, words in downloads(doc):
        for name, places in _filters(words).items():
            for value in (word for _, some in places for word in some):
                trouble = _pattern_trouble(value.text or "")
                if trouble:
                    yield Found(
                        value.at, f"{name} {value.text}: {trouble[0]}", f"write {trouble[1]!r}",
                        sees=value.text or "",
                    )  # fmt: skip


def _pattern_trouble(text: str) -> tuple[str, str] | None:
    bare = re.sub(r"^(\./|/)+", "", text)
    if bare != text:
        return "no path in a repository begins like that: it matches nothing", bare
    if re.fullmatch(r"[\w-]+", text) and text not in ("LICENSE", "README", "USAGE_POLICY"):
        return "it matches a file of that very name only", f"{text}/*"
    around = re.fullmatch(r"\*([\w-]+)\*", text)
    if around and around[1] in ("original", "metal"):
        return "it also matches other paths with that word", f"{around[1]}/*"
    return None


_GONE: Final = frozenset(("--resume-download", "--local-dir-use-symlinks"))


@file_rule(Verdict.BLOCK, Verdict.WARN)
def old_hub_command(doc: Document, ctx: Context) -> Iterator[Found]:
    """`huggingface-cli` went with huggingface_hub 1.0, and two of its options with it.

    The program is `hf` now. It never had `--resume-download` and `--local-dir-use-symlinks`: the
    command stops.

    Bad:
        huggingface-cli download openai/gpt-oss-20b --local-dir /srv/m --resume-download

    Good:
        hf download openai/gpt-oss-20b --local-dir /srv/m

    Source: huggingface_hub 1.0.1 entry points (tried: huggingface_hub 0.34.4, 2.4.0)
    """
    for _, words in downloads(doc):
        by_pin = old_client(doc.text, ())
        if (words[0].text or "").endswith("huggingface-cli"):
            if by_pin is not True:
                yield Found(
                    words[0].at, "huggingface_hub 1.0 and later have no huggingface-cli",
                    "write hf download", sees=words[0].text or "", verdict=Verdict.WARN,
                )  # fmt: skip
            continue
        for word in words[1:]:
            if (word.text or "").partition("=")[0] in _GONE:
                yield Found(
                    word.at, f"{word.text} is no option of hf download: it stops",
                    "leave it out", sees=word.text or "",
                )  # fmt: skip
