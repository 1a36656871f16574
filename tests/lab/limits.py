"""Limits of the host's kernel that many machines reach together."""

from __future__ import annotations

from pathlib import Path

from .host import LabError, say

# All machines run as the host's root, and inotify(7) counts instances per user. With the 128 of
# Linux the 18th machine did not come up (measured): about 7 each. The host's share is a guess.
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
PER_MACHINE, OTHERS = 7, 64


def make_room(machines: int) -> None:
    """
    Raise the number of inotify instances when these machines need more.

    It stays raised until the host's next boot: another lab may have come to need it. Raises
    LabError when the host refuses.
    """
    wanted = machines * PER_MACHINE + OTHERS
    have = int(INOTIFY.read_text())
    if have >= wanted:
        return
    try:
        INOTIFY.write_text(str(wanted))
    except OSError as error:
        raise LabError(
            f"{machines} machines need {wanted} inotify instances, this host allows {have} and "
            f"refuses more ({error.strerror}); sysctl -w fs.inotify.max_user_instances={wanted}"
        ) from error
    say(f"fs.inotify.max_user_instances: {have} raised to {wanted} until the next boot")
