"""Learns published releases of vLLM again: python -m tests.introspection [VERSION …].

Without versions it reads the releases that data/vllm-releases.json has; a new release is named
together with them. Each archive is removed once it is read.
"""

from __future__ import annotations

import sys

from sparkwright.vllm_history import DATA, releases
from sparkwright.vllm_learn import encode, learn

from .sources import forget, sources


def main(versions: list[str]) -> None:
    """Read the releases and write the data file."""
    known = []
    ordered = sorted(versions, key=lambda text: [int(part) for part in text.split(".")])
    for version in ordered:
        known.append(learn(sources(version)))
        forget([version] if version not in KEPT else [])
    DATA.write_text(encode(known))
    print(f"{DATA}: {len(known)} releases")


# What test_real_sources.py reads.
KEPT = ("0.17.1", "0.33.0")

if __name__ == "__main__":
    main(sys.argv[1:] or list(releases()))
