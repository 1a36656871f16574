"""A stand-in for a kernel with NVIDIA's driver in it: writes a kernel line into journald's source.

`fake_kernel.py LINE` as root. In a lab machine /dev/kmsg is a pipe of systemd-nspawn, which only
journald reads; so what is written is a kernel line for journald and no one else, in the format of
Documentation/ABI/testing/dev-kmsg: priority, number, microseconds, flags; text. The computer's own
kernel log is not touched.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ERROR = 3  # syslog's priority; facility 0 is the kernel


def main(line: str) -> int:
    """Write one line; 1 when this is no pipe, that is, no lab machine."""
    log = Path("/dev/kmsg")
    if not log.is_fifo():
        return 1
    number, now = int(time.monotonic() * 1000), int(time.monotonic() * 1e6)
    with log.open("wb", buffering=0) as kernel:
        kernel.write(f"{ERROR},{number},{now},-;{line}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
