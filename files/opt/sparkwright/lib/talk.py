"""Asks the probe about this machine: once, or line by line for as long as somebody has questions.

Runs out of its text over SSH, with its neighbours (facts.py): the first question finds nothing of
ours here. With an argument it answers that list of specs and ends. Without, it answers each line of
standard input with a line: sudo and Python start once for a whole converge.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TextIO

import one_writer
import probe

# Nobody asked for so long: the laptop is gone, which sshd may not notice for hours (our choice).
IDLE_S = 900
# As long as a command of the probe's may take.
PROGRAM_S = 600
STREAMS = ("stdin", "stdout", "stderr")
Spec = dict[str, Any]
State = dict[str, Any]


def program(spec: Spec) -> State:
    """
    Exit status and output of one of our programs, which runs in a copy of this process.

    A Python of its own would cost each of them its start again.

    + argv: path of the program and its arguments; user: the account that runs it; stdin: text
    """
    files = [os.fdopen(os.memfd_create(name), "w+", errors="replace") for name in STREAMS]
    files[0].write(spec.get("stdin", ""))
    files[0].seek(0)
    child = os.fork()
    if child == 0:
        _become(spec, files)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = []
    for file in files:
        with file:
            file.seek(0)
            texts.append(file.read())
    return {"rc": code, "out": texts[1], "err": texts[2]}


def _become(spec: Spec, files: Sequence[TextIO]) -> NoReturn:
    """Be the program; nothing of this process may go on in it, whatever happens."""
    code = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = files
        signal.alarm(PROGRAM_S)
        # As root, who alone may keep bytecode beside it.
        main = _loaded(spec["argv"][0]).main
        if spec.get("user"):
            entry = pwd.getpwnam(spec["user"])
            os.initgroups(entry.pw_name, entry.pw_gid)
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)
        code = int(main(spec["argv"][1:]) or 0)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:  # the copy of this process ends here
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _loaded(path: str) -> ModuleType:
    place = Path(path)
    sys.path.insert(0, str(place.parent))
    return __import__(place.stem)


def lock(spec: Spec) -> State:
    """See one_writer.py. Who holds the lock changes this machine, and keeps bytecode on it too."""
    found = one_writer.answer(spec)
    sys.dont_write_bytecode = not found["held"]
    return found


def answers(specs: list[Spec]) -> str:
    """JSON text of the answers, in the questions' order."""
    probe.KINDS.update(program=program, lock=lock)
    return json.dumps([probe.answer(spec) for spec in specs])


def main(argv: list[str]) -> None:
    """Answer the argument, or whatever comes."""
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # for what the questions start
    os.chdir("/")
    if argv:
        print(answers(json.loads(argv[0])))
        return
    while True:
        signal.alarm(IDLE_S)
        line = sys.stdin.readline()
        signal.alarm(0)
        if not line:
            return
        print(answers(json.loads(line)), flush=True)
