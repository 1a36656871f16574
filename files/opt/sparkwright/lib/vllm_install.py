"""uv as make_vllm.py uses it: which Python, which index, a venv, and the wheels of a closed set."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from job_progress import Progress

UV_CONFIG = Path("/etc/uv/uv.toml")
PLACES = "/usr/local/bin:/usr/bin:/bin"
HEADERS = "import sysconfig; print(sysconfig.get_path('include'))"
# What uv prints for each large wheel, and at the ends of its phases.
STARTED = re.compile(r"^\s*Downloading (\S+)")
ENDED = re.compile(r"^\s*(Downloaded|Prepared|Installed|Bytecode compiled) (.*)")


class InstallError(Exception):
    """One line for the user; uv's output is in the unit's journal."""


def find_python(minor: str) -> str:
    """The machine's own python3.<minor> with its headers; Triton compiles against them.

    Raises InstallError; a Python is never downloaded.
    """
    python = shutil.which(f"python{minor}", path=PLACES)
    if python is None:
        raise InstallError(
            f"python{minor}: is not on this machine, and the profile's wheels are for it; "
            f"install it: apt-get install python{minor} python{minor}-dev"
        )
    shown = subprocess.run([python, "-c", HEADERS], capture_output=True, text=True, check=True)
    header = Path(shown.stdout.strip()) / "Python.h"
    if not header.is_file():
        raise InstallError(f"{header}: is not there; apt-get install python{minor}-dev")
    return python


def index_words(uv: Path) -> list[str]:
    """pip's configuration as words for uv, which does not read it.

    A machine where uv itself is set up (its system file) is left to that.
    """
    if UV_CONFIG.exists():
        return []
    pip = [str(uv.with_name("python")), "-m", "pip", "config", "list"]
    shown = subprocess.run(pip, capture_output=True, text=True, check=False).stdout
    names = {
        "index-url": "--default-index",
        "extra-index-url": "--index",
        "find-links": "--find-links",
        "trusted-host": "--allow-insecure-host",
    }
    words: list[str] = []
    for line in shown.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        if section in ("global", "install", ":env:") and name in names:
            words += [w for part in ast.literal_eval(value).split() for w in (names[name], part)]
    return words


class Uv:
    """uv run as the service account, so that nothing out of a wheel ever runs as root.

    + spec: uv, user, cache, dest, find_links, no_index, index; see make_vllm.py
    """

    def __init__(self, spec: dict[str, Any], home: Path) -> None:
        self.spec, self.home = spec, home
        # Never the configuration of whoever started this, never a Python from elsewhere.
        common = ("--no-python-downloads", "--no-managed-python", "--color", "never")
        self.words = [spec["uv"], *common, "--cache-dir", spec["cache"], "--no-progress"]

    def run(
        self, argv: list[str], on_line: Callable[[str], None] = lambda _: None
    ) -> tuple[int, str]:
        """Run a command as the service account; its status and its output (in the journal too)."""
        print("+", *argv, flush=True)
        env = {
            "PATH": PLACES,
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "UV_HTTP_TIMEOUT": "600",  # eugr/spark-vllm-docker's Dockerfile; wheels have 500 MB
            "UV_SYSTEM_CERTS": "1",  # the machine's own authorities, as pip there is told
            **{k: v for k, v in os.environ.items() if k.upper().endswith("_PROXY")},
        }
        user = {"user": self.spec["user"], "group": self.spec["user"], "extra_groups": []}
        tool = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=env,
            cwd=self.home,
            **user,
        )
        lines = []
        for line in tool.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
            on_line(line)
        return tool.wait(), "".join(lines)

    def make(self, python: str, dest: Path) -> None:
        """An empty venv; relocatable, because it is made beside and then renamed."""
        words = ["venv", "--quiet", "--relocatable", "--python", python, str(dest)]
        self._must([*self.words, *words], "uv venv")

    def install(self, dest: Path, requirements: Path, progress: Progress) -> None:
        """The wheels of the requirements file and no others. Raises InstallError."""
        links = [w for path in self.spec["find_links"] for w in ("--find-links", path)]
        # Every line has its hash, so it does not matter which index offers the file.
        index = ["--no-index"] if self.spec["no_index"] else self._index()
        strategy = ["--index-strategy", "unsafe-best-match"]
        total, done, running = self.spec["wheels"], 0, ""

        def on_line(line: str) -> None:
            nonlocal done, running
            if start := STARTED.match(line):
                running = start[1]
            elif end := ENDED.match(line):
                done += end[1] == "Downloaded"
                running = f"{end[1].lower()} {end[2]}"
            progress.say("installing", f"{total} wheels, {done} large ones here; {running}", False)

        progress.say("installing", f"{total} wheels")
        self._must(
            [
                *self.words, "pip", "install", "--python", str(dest / "bin/python"),
                "--require-hashes", "--no-deps", "--only-binary", ":all:", "--compile-bytecode",
                *strategy, *index, *links, "-r", str(requirements),
            ],
            "uv pip install", on_line,
        )  # fmt: skip

    def _index(self) -> list[str]:
        """Where wheels are: the spec's index and nothing else, or as pip and uv are set up here."""
        if self.spec.get("index"):
            return ["--no-config", "--default-index", self.spec["index"]]
        return index_words(Path(self.spec["uv"]))

    def _must(
        self, argv: list[str], what: str, on_line: Callable[[str], None] = lambda _: None
    ) -> None:
        status, text = self.run(argv, on_line)
        if status != 0:
            raise InstallError(f"{what}: {reason(text)}")


def reason(text: str) -> str:
    """uv's error in one line: from its first "error" on, hints and blank lines left out."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    start = next((at for at, line in enumerate(lines) if re.match(r"error|\u00d7", line)), -3)
    told = " ".join(lines[start:])[:600] or "it said nothing"
    if "No space left on device" in text:
        return f"no space left; free some, then run it again: {told}"
    if "Hash mismatch" in text:
        return f"{told}; the index has another file than the lock: sparkwright lock --wheels"
    if re.search(r"404|no version of|not found in the (package )?(index|registry)", text):
        return f"{told}; the file is gone upstream (a moving tag?): sparkwright lock --wheels"
    return told
