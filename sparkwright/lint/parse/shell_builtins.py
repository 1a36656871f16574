"""What some commands do to a script's variables, and scripts inside of scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkwright.lint.model import At, Command, How, Unsure, Word
from sparkwright.lint.parse.shell_values import Array, Bit, State
from sparkwright.lint.text import Text

if TYPE_CHECKING:
    from sparkwright.lint.parse.shell_walk import Walker

Words = tuple[Word, ...]
SHELLS: Final = frozenset({"bash", "sh", "dash", "zsh", "ash"})
REMOTE: Final = frozenset({"ssh", "tmux", "screen", "su", "runuser"})


def run(walker: Walker, made: Command, words: Words) -> None:
    """Apply a command to the walk; most change nothing."""
    name = words[0].text or ""
    handler = _BUILTINS.get(name)
    if handler is not None:
        handler(walker, words)
    bare = made.name
    if bare in SHELLS:
        if script := script_of(made.argv):
            start = len(walker.out.seen)
            walker.nested(script, _inherited(walker.state, made))
            _run_by(walker, start, made.user)
    elif bare in REMOTE:
        for word in made.argv[1:]:
            if " " in word.shape.strip():
                walker.nested(Text(word.shape, word.spots or ((0, word.at),)), State())
    if "exec" in made.wrapped:
        walker.state.ended = True


def _run_by(walker: Walker, start: int, user: str | None) -> None:
    """What a shell of somebody's runs is his too, unless it says another."""
    for at, seen in enumerate(walker.out.seen[start:], start):
        if user != "" and seen.command.user == "":
            walker.out.seen[at] = replace(seen, command=replace(seen.command, user=user))


def script_of(argv: Words) -> Text | None:
    """The text of `bash -c TEXT`, None when the command is something else."""
    for at, word in enumerate(argv[1:], 1):
        text = word.text or ""
        if not text.startswith("-"):
            return None
        if "c" in text and not text.startswith("--"):
            script = next((w for w in argv[at + 1 :] if not (w.text or "").startswith("-")), None)
            return Text(script.shape, script.spots or ((0, script.at),)) if script else None
    return None


def _inherited(state: State, made: Command) -> State:
    """A child shell knows what is exported."""
    values = {name: state.values[name] for name in state.exported if name in state.values}
    child = State(values, dict(state.exported), dict(state.made), state.sourced)
    for item in made.env:
        child.exported[item.name] = True
        child.made[item.name] = replace(item, how=How.PREFIX)
        child.values[item.name] = (Bit(item.value, item.at),)
    return child


def _source(walker: Walker, words: Words) -> None:
    if len(words) < 2:
        return
    shown = words[1].text or words[1].raw
    state = walker.state
    state.sourced += (Unsure(words[1].at, f"{shown} is read in there, and not at hand"),)
    for name, value in state.values.items():
        if isinstance(value, tuple):
            state.values[name] = tuple(replace(b, unless=b.unless or shown) for b in value)


def _set(walker: Walker, words: Words) -> None:
    texts = [word.text or "" for word in words[1:]]
    for sign, on in (("-", True), ("+", False)):
        short = any(t.startswith(sign) and "a" in t[1:] and t[1:2] != "o" for t in texts)
        if short or (f"{sign}o" in texts and "allexport" in texts):
            walker.state.allexport = on
    if texts[:1] == ["--"]:
        walker.state.arguments = words[2:]


def _fill(walker: Walker, words: Words) -> None:
    """`read X`, `mapfile -t X`, `printf -v X`, `getopts … X`: values from outside."""
    for word in words[1:]:
        if word.text and word.text.isidentifier():
            walker.state.values[word.text] = (Bit(None, word.at),)


def _fill_list(walker: Walker, words: Words) -> None:
    for word in words[1:]:
        if word.text and word.text.isidentifier():
            walker.state.values[word.text] = Array((Word(None, word.raw, word.at, many=True),))


def _printf(walker: Walker, words: Words) -> None:
    if len(words) > 2 and words[1].text == "-v":
        _fill(walker, words[1:3])


def _leave(walker: Walker, words: Words) -> None:
    walker.state.ended = True


def _shift(walker: Walker, words: Words) -> None:
    """Positional words move on; in a loop nobody knows how far."""
    walker.state.arguments = None


def _eval(walker: Walker, words: Words) -> None:
    text, marks = "", list[tuple[int, At]]()
    for word in words[1:]:
        marks += [(len(text) + offset, at) for offset, at in word.spots or ((0, word.at),)]
        text += word.shape + " "
    if text:
        walker.inline(Text(text, tuple(marks)))


_BUILTINS: Final[dict[str, Callable[[Walker, Words], None]]] = {
    "source": _source,
    ".": _source,
    "set": _set,
    "read": _fill,
    "getopts": _fill,
    "printf": _printf,
    "mapfile": _fill_list,
    "readarray": _fill_list,
    "exit": _leave,
    "return": _leave,
    "shift": _shift,
    "eval": _eval,
}
