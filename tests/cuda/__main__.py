"""`python -m tests.cuda [FILE.cu …]`: compile CUDA files of llama.cpp on a lab machine, no GPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cuda import machine, proof, toolkit
from tests.lab import Bind, LabError, start_lab
from tests.lab.host import say

SOURCES = ("add-id.cu", "topk-moe.cu", "softmax.cu")
WOULD = (
    "it would complete a CUDA 13 toolkit in the lab's cache folder, boot a lab machine with it, "
    "and compile CUDA files of llama.cpp there for sm_121a"
)


def prove(found: toolkit.Toolkit, sources: Sequence[str]) -> list[str]:
    """Boot a machine, walk the tasks and compile; returns what is wrong."""
    ready = toolkit.prepare(found)
    bind = Bind(ready.folder, ready.place)
    with start_lab(machines=1, binds=(bind,)) as lab, TemporaryDirectory() as place:
        fleet = lab.write_fleet(Path(place) / "sparks.yaml", {}, machine.SETTINGS)
        say("preflight, base and cuda, as deploy.py runs them")
        machine.converge(fleet)
        seen, nvcc, user = machine.build(lab, fleet, sources)
    wrong = proof.problems(seen, nvcc, user)
    if not wrong:
        report(seen, nvcc)
    return wrong


def report(seen: proof.Evidence, nvcc: str) -> None:
    """Show the proof, not only that there is one."""
    print(f"cmake: {proof.REPLACED}")
    print(f"CMakeCache.txt: CMAKE_CUDA_COMPILER={nvcc}")
    for name, listing in seen.objects.items():
        print(f"{name}: {' '.join(listing.split()[1:])}")
    print("network: the build had lo alone, the upstream got no request")
    print(f"RESULT cuda configured=yes compiled={len(seen.objects)} arch={proof.ARCH}")


def main(argv: list[str] | None = None) -> int:
    """Prove it; 1 with what is missing or wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda", description=__doc__)
    parser.add_argument("sources", nargs="*", default=SOURCES, metavar="FILE.cu",
                        help="below ggml/src/ggml-cuda; default: " + " ".join(SOURCES))  # fmt: skip
    sources = parser.parse_args(argv).sources
    found = toolkit.find() if sys.platform == "linux" else None
    reasons = toolkit.missing(found)
    if found is None or reasons:
        print("\n".join(["missing:", *reasons, WOULD]), file=sys.stderr)
        return 1
    try:
        wrong = prove(found, sources)
    except LabError as error:
        print(f"cuda: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cuda: interrupted; everything was taken down", file=sys.stderr)
        return 130
    for what in wrong:
        print(f"cuda: {what}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
