"""Installs Debian packages after looking at what apt would do, and refuses what we never touch.

apt_install.py PACKAGE[=VERSION]...
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence

APT = ["apt-get", "-o", "DPkg::Lock::Timeout=600", "-y", "--no-install-recommends"]
# Driver, kernel, firmware and container toolkit belong to DGX OS: on GB10 a driver without its
# firmware leaves `nvidia-smi: No devices found` (NVIDIA's forum, OTA2607). Report, never change.
PROTECTED = re.compile(
    r"^(cuda|cuda-drivers.*|nvidia-.*|libnvidia-.*|xserver-xorg.*"
    r"|linux-(image|modules|headers|generic|nvidia|firmware).*"
    r"|dgx-.*|fwupd.*|docker.*|containerd.*)$"
)
ACTION = re.compile(r"^(Inst|Remv) (\S+)")


def refused(simulation: str, wanted: Sequence[str]) -> list[str]:
    """What apt would do that we never do, a phrase each, from the text of `apt-get -s install`."""
    names = {word.split("=")[0] for word in wanted}
    found = []
    for line in simulation.splitlines():
        action = ACTION.match(line)
        if action and action[1] == "Remv":
            found.append(f"apt would remove {action[2]}")
        elif action and PROTECTED.match(action[2].split(":")[0]):
            how = "asked for by name" if action[2] in names else "pulled in"
            found.append(f"apt would install or change {action[2]} ({how})")
    return found


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run apt without questions."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    return subprocess.run(argv, capture_output=True, text=True, env=env, check=False)


def main(argv: list[str]) -> int:
    """Simulate, judge, install; one clear line on refusal or failure."""
    simulated = run([*APT, "-s", "install", *argv])
    if simulated.returncode != 0:
        updated = run([*APT[:-2], "update"])
        simulated = run([*APT, "-s", "install", *argv])
        if simulated.returncode != 0:
            why = (simulated.stderr or updated.stderr).strip()
            print(
                f"apt: cannot install {' '.join(argv)}: {why}; look at the machine's apt sources",
                file=sys.stderr,
            )
            return 1
    found = refused(simulated.stdout, argv)
    if found:
        print(
            f"apt: refused, nothing was installed: {'; '.join(found)}; sparkwright never changes "
            "driver, kernel, firmware or container toolkit",
            file=sys.stderr,
        )
        return 1
    done = run([*APT, "install", *argv])
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        print(f"apt: install of {' '.join(argv)} failed:\n{tail}", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
