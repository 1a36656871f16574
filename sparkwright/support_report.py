"""A tarball for a bug report: what machines and laptop say, without what must not leave."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sparkwright.errors import SparkwrightError
from sparkwright.site import UNIT_DIR, planned
from sparkwright.status_ask import Answer
from sparkwright.support_report_redact import Redactor

LIMIT: Final = 400_000  # bytes of one text: about 4,000 lines of a journal
LINES: Final = "2000"
_JOURNAL: Final = ("journalctl", "--no-pager", "--no-hostname", "-o", "short-iso", "-n", LINES)


def commands(units: Sequence[str]) -> dict[str, list[str]]:
    """What a machine is asked, by the name of its file in the report."""
    found = {
        "kernel.txt": ["uname", "-srvm"],
        "memory.txt": ["free", "-m"],
        "disks.txt": ["df", "-hT", "-x", "tmpfs", "-x", "devtmpfs", "-x", "overlay"],
        "gpu.txt": ["nvidia-smi"],
        "gpu-more.txt": ["nvidia-smi", "-q", "-d", "MEMORY,CLOCK,POWER,TEMPERATURE,PERFORMANCE"],
        "packages.txt": ["dpkg-query", "-W", "cuda-*", "libcu*", "nvidia-*", "libnccl*", "docker*"],
        "ports.txt": ["ss", "-Hltnp"],
        "failed.txt": ["systemctl", "--no-pager", "--failed"],
        "containers.txt": ["docker", "ps", "-a", "--no-trunc"],
        "kernel-log.txt": [*_JOURNAL, "-k", "-p", "warning"],
        "kernel-log-of-the-boot-before.txt": [*_JOURNAL, "-k", "-p", "warning", "-b", "-1"],
        "installed.txt": ["find", "/opt/sparkwright", "-maxdepth", "3", "-printf", "%M %p %l\\n"],
        "jobs.txt": ["systemctl", "--no-pager", "list-units", "--all", "sparkwright-*"],
    }
    for unit in units:
        found[f"{unit}.journal.txt"] = [*_JOURNAL, "-u", unit]
        found[f"{unit}.show.txt"] = ["systemctl", "--no-pager", "show", unit]
        found[f"{unit}.verify.txt"] = ["systemd-analyze", "verify", f"{UNIT_DIR}/{unit}.service"]
    return found


def question(name: str, data: Mapping[str, Any]) -> tuple[str, str]:
    """One round trip: the program status_report.py with its instructions."""
    units = [item.unit for item in planned(data)]
    etc = data["etc_dir"]
    spec = {
        "commands": commands(units),
        "files": {"os.txt": "/etc/os-release", "meminfo.txt": "/proc/meminfo",
                  **{f"{unit}.service.txt": f"{UNIT_DIR}/{unit}.service" for unit in units}},
        "secrets": [f"{etc}/api-key", f"{etc}/api-key.env"],
        "limit": LIMIT,
    }  # fmt: skip
    return "status_report.py", json.dumps(spec)


def texts(answers: Iterable[Answer]) -> dict[str, str]:
    """Path in the report -> text, not yet cleaned. A machine that said nothing has its reason."""
    found: dict[str, str] = {}
    for answer in answers:
        if answer.said is None:
            found[f"{answer.name}/unreachable.txt"] = answer.why + "\n"
        else:
            found |= {f"{answer.name}/{name}": text for name, text in answer.said.items()}
    return found


def pack(path: Path, found: Mapping[str, str], redactor: Redactor) -> dict[str, int]:
    """
    Write the tarball, readable for its owner alone; returns how many bytes each text has.

    Raises SparkwrightError, and writes nothing, when a secret is still in a cleaned text.
    """
    cleaned = {name: redactor.clean(text) for name, text in sorted(found.items())}
    left = sorted(n for n, text in cleaned.items() if any(s in text for s in redactor.secrets))
    if left:
        raise SparkwrightError(f"{path}: not written, a secret is still in {', '.join(left)}")
    cleaned["README.txt"] = readme(redactor)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    with tarfile.open(path, "w:gz") as tar:
        for name, text in cleaned.items():
            data = text.encode()
            info = tarfile.TarInfo(f"sparkwright-report/{name}")
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return {name: len(text.encode()) for name, text in cleaned.items()}


def readme(redactor: Redactor) -> str:
    """What the report is, and what was taken out."""
    rows = [f"  {kind}: {count}" for kind, count in sorted(redactor.counts.items())]
    return "\n".join(
        [
            "Made by `sparkwright report`. One directory for each spark.",
            "Taken out: secrets, serial numbers, addresses, names of users and machines. The same",
            "thing has the same number everywhere, as in <address-2>. Read it before you send it.",
            "",
            "taken out, by kind:",
            *(rows or ["  nothing"]),
            "",
        ]
    )
