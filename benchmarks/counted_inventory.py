"""inventory.py, with a line in the file COUNT_FILE for each SSH channel that is opened.

A remote command and a file transfer are a channel each.
"""

import os as _os
from pathlib import Path as _Path
from typing import Any as _Any

import paramiko as _paramiko

from sparkwright.fleet_pyinfra import groups_for_pyinfra as _groups_for_pyinfra

_open_channel = _paramiko.Transport.open_channel


def _counted(self: _Any, *args: _Any, **options: _Any) -> _Any:
    with _Path(_os.environ["COUNT_FILE"]).open("a") as out:
        out.write("channel\n")
    return _open_channel(self, *args, **options)


_paramiko.Transport.open_channel = _counted  # type: ignore[method-assign]
globals().update(_groups_for_pyinfra(_Path(__file__).resolve().parents[1]))
