"""A stand-in for a kernel with NVIDIA's driver in it: gives journald a line of the kernel's.

`fake_kernel.py LINE` as root of a lab machine. Those have no /dev/kmsg, since systemd-nspawn gives
none; so it is made here, as a pipe that journald alone reads, in the format of the kernel's own
Documentation/ABI/testing/dev-kmsg: priority, number, microseconds, flags; text. For journald that
is a kernel line like any other. The kernel's own log is not touched: where /dev/kmsg is the real
one, this refuses.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

ERROR = 3  # syslog's priority; facility 0 is the kernel


def main(line: str) -> int:
    """Write one line; 1 on a machine with a real kernel log."""
    log = Path("/dev/kmsg")
    new = not log.exists()
    if new:
        os.mkfifo(log, 0o600)
    if not log.is_fifo():
        print("fake_kernel: /dev/kmsg is a real one", file=sys.stderr)
        return 1
    # For reading too: systemd opens it for writing and would wait for a reader for ever.
    pipe = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    if new:
        subprocess.run(["systemctl", "restart", "systemd-journald"], check=True)
    empty(pipe)
    number, now = int(time.monotonic() * 1000), int(time.monotonic() * 1e6)
    os.write(pipe, f"{ERROR},{number},{now},-;{line}\n".encode())
    return 0 if empty(pipe) else 1


def empty(pipe: int) -> bool:
    """Wait until journald has read what is in there; False when it does not."""
    end = time.monotonic() + 20
    while select.select([pipe], [], [], 0)[0]:
        if time.monotonic() > end:
            print("fake_kernel: journald does not read", file=sys.stderr)
            return False
        time.sleep(0.05)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
