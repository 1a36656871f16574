"""`python -m tests.operate`: every test of the operate commands, and one line that says how.

bench is not there yet, and says so; doctor counts the causes that a lab machine provokes.
"""

from __future__ import annotations

import subprocess
import sys

from tests.operate import causes

UNIT = {
    "fit": ["fit", "kv_cache", "model_shape", "roofline"],
    "doctor": ["doctor"],
    "status": ["status", "support_report"],
    "verify": ["verify"],
}


def passed(words: list[str]) -> bool:
    """Whether pytest is content."""
    return (
        subprocess.run([sys.executable, "-m", "pytest", "-q", *words], check=False).returncode == 0
    )


def main() -> int:
    """Run everything; 1 when something failed."""
    said = {
        name: passed([f"tests/unit/test_{part}.py" for part in parts])
        for name, parts in UNIT.items()
    }
    lab = passed(["tests/operate"])
    word = {True: "ok", False: "FAILED"}
    provoked, known = causes.on_a_lab()
    parts = {name: word[said[name] and (lab or name == "fit")] for name in said}
    parts |= {"bench": "absent", "doctor": f"{provoked}/{known}"}
    order = ("status", "verify", "bench", "fit", "doctor")
    print("RESULT operate", *(f"{name}={parts[name]}" for name in order))
    return 0 if lab and all(said.values()) and provoked == known else 1


if __name__ == "__main__":
    raise SystemExit(main())
