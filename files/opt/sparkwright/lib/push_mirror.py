"""Asks a mirror from this machine whether it serves the bundle of a lock.

    push_mirror.py URL LOCK_SHA256     exit 0 when it does, 1 with one line that says what is wrong

Travels as text: nothing of ours is installed yet.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from http.client import HTTPException

TIMEOUT_S = 20.0  # an intranet server answers in milliseconds (our choice)


def wrong(url: str, lock_sha256: str) -> str:
    """What is wrong, or nothing."""
    try:
        with urllib.request.urlopen(f"{url}/MANIFEST.json", timeout=TIMEOUT_S) as answer:
            kind = answer.headers.get("Content-Type") or ""
            data = answer.read()
    except urllib.error.HTTPError as error:
        return f"answered {error.code}; serve the bundle's directory there, as it is"
    except (OSError, ValueError, HTTPException) as error:
        why = getattr(error, "reason", None) or error
        return f"does not answer this machine ({why})"
    if data.lstrip()[:5].lower() in (b"<!doc", b"<html") or kind.startswith("text/html"):
        return "a web page came instead of the file: a login or proxy page"
    try:
        found = str(json.loads(data)["lock_sha256"])
    except (ValueError, KeyError, TypeError):
        return "is no bundle's manifest"
    if found != lock_sha256:
        return (
            f"was made from another artifacts.lock.yaml ({found[:12]}, the fleet's is "
            f"{lock_sha256[:12]}); fill the bundle again, or use the lock that lies in it"
        )
    return ""


def main(argv: list[str]) -> int:
    """Run one question."""
    problem = wrong(*argv)
    if problem:
        print(f"mirror {argv[0]}/MANIFEST.json: {problem}")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
