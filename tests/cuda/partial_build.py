"""Runs on the lab machine in the task's own transient unit: the build program, for a few files.

It walks through build_llama.py's unpacking, configuring and compiling; what follows there (checking
and installing whole programs) would need the whole CUDA build of over an hour.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

sys.path.insert(0, "/opt/sparkwright/lib")

import build_llama


def main(argv: list[str]) -> int:
    """Build the targets of the spec file; 1 with the reason when that fails."""
    spec = json.loads(Path(argv[0]).read_text())
    progress, work = build_llama.Progress(spec["progress"]), Path(spec["work"])
    print("network interfaces:", *[name for _, name in socket.if_nameindex()], flush=True)
    try:
        progress.say("unpacking")
        top = build_llama.unpack(spec, work)
        build_llama.compile_all(spec, work, top, progress)
    except (build_llama.BuildError, OSError) as error:
        progress.say("failed", str(error))
        print(f"build: {error}", file=sys.stderr)
        return 1
    progress.say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
