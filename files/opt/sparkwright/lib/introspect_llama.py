"""Says as JSON what an installed llama-server knows, from what its own --help prints.

    introspect_llama.py BINARY            print it
    introspect_llama.py BINARY FILE       write it there, whole or not at all

The layout of the text: llama.cpp common/arg.cpp, common_arg::to_string (b11312): names and a hint
of the value up to column 40, or on a line of their own; then what the option does, indented.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

INDENT = 40
OPTION = re.compile(r"-[^\s,]+")
VARIABLE = re.compile(r"\(env: (\w+)\)")
# common/arg.cpp: is_truthy, is_falsey, is_autoy.
SWITCH = {
    "on": ("on", "enabled", "true", "1"),
    "off": ("off", "disabled", "false", "0"),
    "auto": ("auto", "-1"),
}
REMOVED = "the argument has been removed"


class NoServer(Exception):
    """One line for the user."""


def entries(text: str) -> Iterator[tuple[str, str]]:
    """(names and hint, description with its line breaks) of each option in a help text."""
    head, described = "", [""]
    for line in text.splitlines():
        if line.startswith("-") and not line.startswith("-----"):
            if head:
                yield head, "\n".join(described)
            # Names that leave no room stand alone on their line.
            short = len(line) > INDENT and line[INDENT - 3 : INDENT].isspace()
            head = line[:INDENT].strip() if short else line.strip()
            described = [line[INDENT:]] if short else []
        elif line.startswith(" " * INDENT):
            described.append(line.strip())
    if head:
        yield head, "\n".join(described)


def split(head: str) -> tuple[list[str], str]:
    """Names of an option, and the hint of its value; empty: it takes none."""
    names, rest = [], head
    while found := OPTION.match(rest):
        names.append(found[0])
        rest = rest[found.end() :]
        if not rest.startswith(","):
            break
        rest = rest[1:].lstrip()
    return names, rest.strip()


def choices(hint: str, described: str) -> list[str] | None:
    """The values that the hint or the description lists; None when any is taken."""
    if found := re.fullmatch(r"[\[{<]([\w.-]+(?:[|,][\w.-]+)+)[\]}>]", hint):
        words = re.split(r"[|,]", found[1])
        if hint[0] == "<" and words != ["0", "1"]:
            return None  # <dev1,dev2,..>, <0...100>: a form, no values
        return [value for word in words for value in (SWITCH.get(word) or (word,))]
    if found := re.search(r"allowed values: ([^(]+)", described):
        return re.split(r",\s*", found[1].strip())
    listed = re.findall(r"^- ([\w+-]+)(?: \(default\))?:", described, re.M)
    if hint == "N" or not listed:
        return None
    default = re.search(r"\(default: ([\w+-]+)\)", described)
    extra = [default[1]] if default and default[1] not in listed else []
    return listed + extra


def parse(text: str) -> dict[str, Any]:
    """Flags, variables and deprecations of a help text."""
    flags: dict[str, dict[str, Any]] = {}
    env: dict[str, list[str] | None] = {}
    deprecated: dict[str, str] = {}
    for head, described in entries(text):
        names, hint = split(head)
        known = choices(hint, described) if hint else None
        long = [name[2:] for name in names if name.startswith("--")]
        told = " ".join(VARIABLE.sub("", described).split())
        if "deprecated" in told.lower() or REMOVED in told:
            deprecated |= {f"--{name}": told for name in long}
        if REMOVED in told:
            continue  # shown, but refused when it is used
        flags |= {name: {"choices": known, "value": bool(hint)} for name in long}
        for variable in VARIABLE.findall(described):
            env[variable] = known
            if any(f"no-{name}" in long for name in long):
                env[variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_")] = None
    return {"flags": flags, "env": env, "deprecated": deprecated}


def facts(binary: str) -> dict[str, Any]:
    """Everything that is printed.

    Raises NoServer when the program does not run or shows no options.
    """
    found = parse(_output(binary, "--help"))
    if "port" not in found["flags"]:
        raise NoServer(f"{binary} --help: shows no --port; is this llama-server?")
    version = re.search(r"^version: (.+)", _output(binary, "--version"), re.M)
    return {
        "engine": "llama.cpp",
        "build": "llama.cpp",
        "version": version[1].strip() if version else "unknown",
        **found,
        "reasoning_parsers": [],
        "tool_parsers": [],
        "attention_backends": [],
    }


def _output(binary: str, option: str) -> str:
    """Both streams: the version goes to stderr."""
    try:
        asked = subprocess.run(
            [binary, option],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=120,  # a CUDA build looks for its devices first
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoServer(f"{binary} {option}: {error}") from error
    if asked.returncode != 0:
        raise NoServer(f"{binary} {option}: exit code {asked.returncode}: {asked.stdout[-300:]!r}")
    return asked.stdout


def main(argv: list[str]) -> int:
    """Print or write the facts; 1 and a line on stderr when there is no llama-server to ask."""
    try:
        text = json.dumps(facts(argv[0]), separators=(",", ":"))
    except NoServer as error:
        print(f"introspect: {error}", file=sys.stderr)
        return 1
    if len(argv) == 1:
        print(text)
        return 0
    beside = Path(argv[1] + ".new")
    beside.write_text(text)
    beside.replace(argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
