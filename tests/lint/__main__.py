"""`make lint-cases`: every case of the lint, counted."""

from __future__ import annotations

import sys

from sparkwright.lint.findings import Verdict
from tests.lint import case_files, good_files


def main() -> int:
    """Print what is wrong, then one line for machines; 1 when anything is."""
    total = right = false = 0
    for case in case_files.every():
        found = case_files.findings(case)
        trouble = case_files.wrong(case, found)
        blocks = case_files.false_blocks(case, found)
        total, right, false = total + 1, right + (not trouble), false + len(blocks)
        for line in (*trouble, *blocks):
            print(f"{case.family}/{case.rule}: {case.name}: {line}")
    for path, good in good_files.findings():
        bad = [item for item in good if item.verdict is Verdict.BLOCK]
        total, right, false = total + 1, right + (not bad), false + len(bad)
        for item in bad:
            print(f"{path}: {item.rule} {item.line} {item.message}")
    print(f"RESULT lint cases={total} right={right} false_blocks={false}")
    return 0 if right == total and false == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
