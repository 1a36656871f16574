"""Makes a Python environment from a requirements file in which every line carries a hash.

make_venv.py SPEC.json      SPEC: requirements, dest, stamp, digest, progress
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path


def say(path: str, phase: str, message: str = "") -> None:
    """Replace the progress file that the laptop reads."""
    beside = Path(path).with_suffix(".new")
    beside.write_text(json.dumps({"phase": phase, "message": message}))
    beside.replace(path)


def steps(dest: Path, spec: dict[str, str]) -> list[list[str]]:
    """Commands in order; the last one proves that the environment works."""
    python = str(dest / "bin" / "python")
    pip = [python, "-m", "pip", "--no-input", "--disable-pip-version-check"]
    wheels = ["--no-cache-dir", "--no-compile", "--only-binary", ":all:", "--require-hashes"]
    return [
        ["python3", "-m", "venv", str(dest)],
        [*pip, "install", *wheels, "-r", spec["requirements"]],
        [*pip, "check"],
        [python, "-c", spec["proof"]],
    ]


def main(argv: list[str]) -> int:
    """Build the environment where its stamp will be; the stamp is written last."""
    spec = json.loads(Path(argv[0]).read_text())
    dest = Path(spec["dest"])
    say(spec["progress"], "installing", dest.name)
    shutil.rmtree(dest, ignore_errors=True)
    for step in steps(dest, spec):
        print("+", *step, flush=True)
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr, flush=True)
        if done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            say(spec["progress"], "failed", f"{Path(step[0]).name}: {' '.join(last)}")
            return 1
    Path(spec["stamp"]).write_text(spec["digest"])
    say(spec["progress"], "done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
