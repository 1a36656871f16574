"""`python -m tests.operate`: every test of the operate commands, and one line that says how.

bench is not there yet, and says so; doctor counts the causes that a lab machine provokes.
"""

from __future__ import annotations

import subprocess
import sys

from sparkwright.doctor import causes

UNIT = {
    "fit": ["fit", "kv_cache", "model_shape", "roofline"],
    "doctor": ["doctor"],
    "status": ["status", "support_report"],
    "verify": ["verify"],
}
PROVOKED = ("a file of the weights is damaged", "another process holds the port",
            "the engine sees no GPU")  # fmt: skip


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
    named = f"{len(PROVOKED) if lab and said['doctor'] else 0}/{len(causes())}"
    parts = {name: word[said[name] and (lab or name == "fit")] for name in said}
    parts |= {"bench": "absent", "doctor": named}
    order = ("status", "verify", "bench", "fit", "doctor")
    print("RESULT operate", *(f"{name}={parts[name]}" for name in order))
    return 0 if lab and all(said.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
