"""A stand-in for an engine: answers 503, then 200 on /health. Standard library only.

`fake_engine.py NAME EVENTS PORT [--load-s S] [--crash]`: it appends "NAME start" and "NAME stop" to
EVENTS, so that a test sees the order; a stop takes one second, as a large model's would.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType


def main() -> int:
    """Serve until SIGTERM; exit 1 at once with --crash."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("events", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--load-s", type=float, default=0.0)
    parser.add_argument("--crash", action="store_true")
    args = parser.parse_args()

    def note(word: str) -> None:
        with args.events.open("a") as out:
            out.write(f"{args.name} {word}\n")

    def stop(number: int, frame: FrameType | None) -> None:
        time.sleep(1)
        note("stop")
        os._exit(0)

    note("start")
    if args.crash:
        print("fake_engine: crashing as told", flush=True)
        return 1
    signal.signal(signal.SIGTERM, stop)
    ready = time.monotonic() + args.load_s

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if time.monotonic() >= ready else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

    ThreadingHTTPServer(("127.0.0.1", args.port), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
