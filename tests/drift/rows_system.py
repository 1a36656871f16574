"""Drift of the system around the servers: account, directories, packages, apt, kernel, journal."""

from __future__ import annotations

from sparkwright.cuda import KEYRING, PIN, SOURCES

from .row import Row
from .rows_units import ASKED, UNIT

KEY = "/etc/sparkwright/api-key"
JOURNAL = "/etc/systemd/journald.conf.d/60-sparkwright.conf"
SYSCTL = "/etc/sysctl.d/60-sparkwright.conf"
LIB = "/opt/sparkwright/lib"
APT = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y remove"
# A valid key, of somebody else.
OTHER_KEY = f"cp /usr/share/keyrings/sparkwright-lab.gpg {KEYRING}"

ROWS = (
    Row("service user out of a group", "gpasswd -d llm video", ("user llm: not in group video",)),
    Row(
        "service user's home moved", "sed -i 's,:/srv/sparkwright:,:/nonexistent:,' /etc/passwd",
        ("user llm: home is /nonexistent, not /srv/sparkwright",),
    ),
    Row(
        "owner of the caches", "chown root:root /srv/sparkwright/cache",
        ("/srv/sparkwright/cache: owner is root, not llm, group is root, not llm",),
    ),
    Row(
        "software directory writable for all", "chmod 0777 /opt/sparkwright/llama.cpp",
        ("/opt/sparkwright/llama.cpp: mode is 0777, not 0755",),
    ),
    Row(
        "a program of ours edited", f"echo 'raise SystemExit(1)' >>{LIB}/memory_gate.py",
        (f"{LIB}/memory_gate.py: content differs",),
    ),
    Row("package removed", f"{APT} ninja-build", ("package ninja-build: not installed",)),
    Row(
        "nvcc removed", f"{APT} cuda-nvcc-13-0", ("CUDA toolkit: no nvcc in *",),
    ),
    Row(
        "a CUDA library removed", f"{APT} libcublas-dev-13-0",
        ("package libcublas-dev-13-0: not installed",),
    ),
    Row(
        "apt source edited", f"sed -i 's/^Signed-By:.*/Trusted: yes/' {SOURCES}",
        (f"{SOURCES}: content differs",),
    ),
    Row("apt pin removed", f"rm {PIN}", (f"{PIN}: missing, not a file",)),
    Row("apt key replaced", OTHER_KEY, (f"{KEYRING}: its keys are *, not *",)),
    Row("apt key unreadable", f"chmod 0600 {KEYRING}", (f"{KEYRING}: mode is 0600, not 0644",)),
    Row(
        "journal drop-in removed", f"rm {JOURNAL}", (f"{JOURNAL}: missing, not a file",),
        (f"systemd-journald.service: started before {JOURNAL} was written",),
    ),
    Row(
        "kernel value changed at run time", "sysctl -q -w vm.swappiness=60",
        ("sysctl vm.swappiness: 60, not 10",),
    ),
    Row("kernel values' file removed", f"rm {SYSCTL}", (f"{SYSCTL}: missing, not a file",)),
    Row("API key readable for all", f"chmod 0644 {KEY}", (f"{KEY}: mode is 0644, not 0640",)),
    Row(
        "API key removed", f"rm {KEY}", (f"{KEY}: no key", f"{UNIT}: runs *, not *"),
        (f"/etc/systemd/system/{UNIT}: content differs", ASKED), (UNIT,),
    ),
)  # fmt: skip
