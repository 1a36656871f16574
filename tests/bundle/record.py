"""Records what a real converge asks upstream for: `python -m tests.bundle.record`, as root.

A lab machine tells its package sources and status over SSH, apt resolves the packages, a bundle is
filled and verified, and then the machine converges from upstream. The requests are kept in
converge_asked.json, with which test_needs.py proves that the computed needs hold them all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.e2e import support
from tests.lab.host import say
from tests.lab.lab import start_lab

RECORD = Path(__file__).with_name("converge_asked.json")
SERVE = {"spark-1": ["tiny-gpt-oss-llamacpp", "tiny-llama-llamacpp"]}


def main() -> int:
    """Record, and say what differs from what was recorded before."""
    with start_lab(machines=1) as lab, TemporaryDirectory() as place:
        fleet = lab.write_fleet(Path(place) / "sparks.yaml", SERVE, support.settings())
        top, own = str(Path(place) / "bundle"), ("--fleet", str(fleet))
        for words in (
            ("lock", *own, "--debs", "spark-1"),
            ("lock", *own, "--check"),
            ("bundle", top, *own),
            ("bundle", "verify", top, *own),
        ):
            done = support.sparkwright(fleet, *words)
            print(f"$ sparkwright {' '.join(words)}\n{done.stdout[-400:]}{done.stderr}")
            if done.returncode:
                return 1
        manifest = json.loads(Path(top, "MANIFEST.json").read_text())
        before = len(lab.upstream.access())
        say("converging from upstream")
        support.converge(fleet)
        rows = lab.upstream.access()[before:]
        asked = sorted({str(row["path"]) for row in rows if row["status"] in (200, 206)})
        files = sorted(row["path"] for row in manifest["files"])
    RECORD.write_text(json.dumps({"asked": asked, "bundle": files}, indent=1) + "\n")
    print(f"{RECORD.name}: {len(asked)} addresses asked, {len(files)} files in the bundle")
    return 0


if __name__ == "__main__":
    sys.exit(main())
