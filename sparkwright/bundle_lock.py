"""One run at a time over a bundle, and never over a directory that holds something else."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from sparkwright.bundle_layout import MANIFEST, OURS, PARTIAL
from sparkwright.errors import Problem, SparkwrightError


@contextlib.contextmanager
def held(top: Path) -> Iterator[None]:
    """Make a bundle's directory and hold its lock; it goes with the process, however that ends.

    Raises SparkwrightError when another run holds it, or for a directory with other things in it.
    """
    _refuse_foreign(top)
    (top / PARTIAL).mkdir(parents=True, exist_ok=True)
    with (top / OURS / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            what = f"another sparkwright bundle is at work here (process {file.read().strip()})"
            raise SparkwrightError(str(Problem(str(top), what, "wait for its end"))) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _refuse_foreign(top: Path) -> None:
    if not top.exists() or (top / OURS).is_dir() or (top / MANIFEST).is_file():
        return
    if not top.is_dir():
        raise SparkwrightError(str(Problem(str(top), "is no directory", "name another place")))
    names = sorted(path.name for path in top.iterdir() if path.name != "lost+found")
    if names:
        shown = ", ".join(names[:3])
        what = f"holds other things ({shown}{', …' if len(names) > 3 else ''}) and is no bundle"
        raise SparkwrightError(str(Problem(str(top), what, "name an empty or new directory")))
