"""Weights on the machine: fetch a model's files and prove them, or say what is missing.

    weights.py fetch SPEC.json [--deep]    exit 0 only when every file is there with its hash
    weights.py status SPEC.json [--deep]   JSON on standard output, in milliseconds

`fetch` runs as the service user in a unit of its own, so a dropped SSH session does not touch it.
Exit codes: 0 done, 1 failed (one line says why), 2 the spec cannot be used, 143 stopped by
SIGTERM. `status` exits 0 whenever it could answer; the answer is in the JSON:

    {"ok", "manifest_digest", "missing", "changed", "leftovers": {name: bytes},
     "missing_bytes", "message", "refused": {path in a library: why it is not used}}

+ missing: not there as a regular file; changed: there, but not what was verified last
+ missing_bytes: bytes that a fetch has to bring, as far as known without hashing
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from weights_files import why
from weights_spec import SpecError, load_spec
from weights_state import status

SPEC_EXIT = 2


def main(argv: list[str]) -> int:
    """Run one command; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="weights.py", description="fetch and prove weights")
    parser.add_argument("command", choices=("fetch", "status"))
    parser.add_argument("spec", type=Path, help="the job as JSON")
    parser.add_argument("--deep", action="store_true", help="hash every file, believe no stamp")
    options = parser.parse_args(argv)
    try:
        spec = load_spec(options.spec)
    except SpecError as error:
        print(error, file=sys.stderr)
        return SPEC_EXIT
    if options.command == "fetch":
        from weights_work import fetch  # here: an answer does not pay for the HTTP client

        return fetch(spec, options.deep)
    try:
        print(json.dumps(status(spec, options.deep), sort_keys=True))
    except OSError as error:
        print(f"weights: {why(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
