"""A mirror with a fault: `python -m tests.airgap.bad_server FAULT PORT --bind A --directory D`.

FAULT: page (every answer is a login page, 200), drops (each answer of more than 64 kB ends half-way
unless the client resumes), or missing:TEXT (404 for paths that hold TEXT).
"""

from __future__ import annotations

import argparse
import functools
import http.server
import io
import os
from typing import Any

PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>"
HALF = 64 * 1024


class Handler(http.server.SimpleHTTPRequestHandler):
    """Python's own server with the fault."""

    fault = ""

    def send_head(self) -> Any:
        kind, _, text = self.fault.partition(":")
        if kind == "page":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            return io.BytesIO(PAGE)
        if kind == "missing" and text in self.path:
            self.send_error(404)
            return None
        return super().send_head()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        size = 0 if isinstance(source, io.BytesIO) else os.fstat(source.fileno()).st_size
        if self.fault == "drops" and size > HALF:
            outputfile.write(source.read(size // 2))
            self.close_connection = True
            return
        super().copyfile(source, outputfile)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until it is ended."""
    options = argparse.ArgumentParser()
    options.add_argument("fault")
    options.add_argument("port", type=int)
    options.add_argument("--bind")
    options.add_argument("--directory")
    args = options.parse_args()
    Handler.fault = args.fault
    handler = functools.partial(Handler, directory=args.directory)
    http.server.ThreadingHTTPServer((args.bind, args.port), handler).serve_forever()


if __name__ == "__main__":
    main()
