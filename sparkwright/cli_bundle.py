"""`sparkwright bundle DIR`: everything that the fleet can need, as one directory to carry."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from sparkwright.bundle_fill import Filling, Options
from sparkwright.bundle_images import Blobs
from sparkwright.bundle_inputs import Inputs, fleet_path, read_inputs
from sparkwright.bundle_key import NAME, have_key
from sparkwright.bundle_lock import held
from sparkwright.bundle_progress import shown
from sparkwright.bundle_verify import verify
from sparkwright.bundle_work import DOWNLOADS
from sparkwright.errors import SparkwrightError

EPILOG = """`sparkwright bundle verify DIR` proves without a network that the bundle is whole and
right. HF_TOKEN, HF_ENDPOINT, HTTPS_PROXY and uv's own settings are respected.

exit code: 0 the bundle is whole, 1 something is missing or wrong, 2 a file of yours is wrong
example: sparkwright bundle /media/disk/bundle --for spark-1"""
INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """
    Run the command.

    Exit codes: 0 the bundle is whole, 1 something is missing or wrong, 2 a file of the user is
    wrong and nothing was fetched, 130 interrupted (the next run goes on from there).
    """
    words = list(argv)
    verifying = words[:1] == ["verify"]
    options = parser(verifying).parse_args(words[verifying:])
    only = {name for text in options.only for name in text.split(",") if name}
    inputs = read_inputs(fleet_path(options.fleet), only)
    key = inputs.fleet.path.parent / NAME
    if verifying:
        lines = verify(options.directory, inputs, key, options.fast, print)
        print("\n".join(lines), file=sys.stderr) if lines else None
        return 1 if lines else 0
    return _fill(options, inputs, key)


def parser(verifying: bool = False) -> argparse.ArgumentParser:
    """The options.

    + verifying: those of `sparkwright bundle verify`
    """
    name = "sparkwright bundle verify" if verifying else "sparkwright bundle"
    made = argparse.ArgumentParser(
        prog=name,
        description="Everything that the fleet can need, as one directory to carry.",
        epilog=EPILOG.replace("bundle /", "bundle verify /") if verifying else EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("directory", type=Path, metavar="DIR")
    made.add_argument("--for", dest="only", action="append", default=[], metavar="SPARK,…",
                        help="these sparks alone; default: all")  # fmt: skip
    made.add_argument("--fleet", type=Path, help="the fleet file; default: sparks.yaml")
    if verifying:
        made.add_argument("--fast", action="store_true",
                            help="believe the stamps of the last run")  # fmt: skip
    else:
        made.add_argument("--deep", action="store_true", help="hash every byte that is there")
        made.add_argument("--jobs", type=int, default=DOWNLOADS, help="downloads at once")
    return made


def _fill(options: argparse.Namespace, inputs: Inputs, key: Path) -> int:
    top: Path = options.directory
    given = os.environ.get("HF_ENDPOINT")
    with held(top):
        filling = Filling(
            top,
            inputs.needs,
            inputs.debs,
            Options(
                lock_text=inputs.lock.path.read_bytes(),
                key=have_key(key),
                deep=options.deep,
                jobs=max(options.jobs, 1),
                token=os.environ.get("HF_TOKEN") or None,
                hub={inputs.lock.hub: given.rstrip("/")} if given else {},
                registry=Blobs(plain=_plain(inputs.lock.hub)),
            ),
        )
        try:
            filling.run()
        except SparkwrightError as error:
            print(error, file=sys.stderr)
            print(f"{top}: not whole; what came is kept, run it again", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print(f"{top}: interrupted; what came is kept, run it again", file=sys.stderr)
            return _leave()
    size = sum(entry.size for entry in filling.disk.have.values())
    state = "written" if filling.changed else "nothing changed"
    print(f"{top}: {len(filling.disk.have)} files, {shown(size)}: {state}")
    return 0


def _leave() -> int:
    """End now, even if a download still waits for a silent server: what is on disk is in order."""
    if threading.active_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    return INTERRUPTED


def _plain(hub: str) -> tuple[str, ...]:
    """A site whose Hub speaks plain http has its registry at the same host and port so, too."""
    parts = urlsplit(hub)
    return (parts.netloc,) if parts.scheme == "http" else ()
