"""`sparkwright report`: a tarball for a bug report, without secrets, serial numbers, addresses."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sparkwright.cli_status import connect
from sparkwright.cli_status import parser as status_parser
from sparkwright.paths import PROJECT

EPILOG = """exit code: 0 written, 2 not written, or a machine could not be asked (in it is why)
example: sparkwright report --limit spark-1"""
# Programs whose versions a report names.
PROGRAMS = ("sparkwright", "pyinfra", "paramiko", "gevent")


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = status_parser("report", "Collect logs, units and versions into a tarball. Reads only.")
    made.epilog, made.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    made.add_argument("--output", type=Path, metavar="FILE",
                      help="default: sparkwright-report-DATE.tar.gz here")  # fmt: skip
    made.set_defaults(timeout=120.0)
    return made


def main(argv: Sequence[str]) -> int:
    """Write the report; see EPILOG for the exit codes."""
    options = parser().parse_args(list(argv))
    fleet = connect(options)

    from sparkwright import support_report
    from sparkwright.support_report_redact import Redactor

    answers = fleet.ask(support_report.question)
    found = {**support_report.texts(answers), **laptop(os.environ)}
    hosts = [str(a.data["ssh_hostname"]) for a in answers if a.data.get("ssh_hostname")]
    users = [str(a.data["ssh_user"]) for a in answers if a.data.get("ssh_user")]
    secrets = [str(a.data["_sudo_password"]) for a in answers if a.data.get("_sudo_password")]
    redactor = Redactor([*secrets, *named_secrets(os.environ)], [*hosts, *logins(users)])
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = options.output or Path(f"sparkwright-report-{stamp}.tar.gz")
    sizes = support_report.pack(path, found, redactor)
    lost = [f"{answer.name}: {answer.why}" for answer in answers if answer.said is None]
    print(
        "\n".join([*lost, f"{path}: {len(sizes)} files, {sum(sizes.values()) // 1024} KiB of text"])
    )
    print("read it before you send it; README.txt in it says what was taken out")
    return 2 if lost else 0


def logins(users: Iterable[str]) -> list[str]:
    """Names of accounts that say who somebody is; those of the machines' makers do not."""
    return [user for user in users if user not in ("root", "spark", "nvidia", "ubuntu")]


def named_secrets(env: Mapping[str, str]) -> list[str]:
    """Values of this laptop's variables that are named like secrets."""
    words = ("TOKEN", "PASSWORD", "PASSWD", "SECRET", "API_KEY", "APIKEY")
    return [v for k, v in env.items() if v and any(word in k.upper() for word in words)]


def laptop(env: Mapping[str, str]) -> dict[str, str]:
    """What this side adds: versions, the fleet file, the lock."""
    fleet = Path(env.get("SPARKS_FILE", PROJECT / "sparks.yaml")).expanduser()
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PROGRAMS]
    versions.append(f"python {platform.python_version()} on {platform.system()}")
    found = {"laptop/versions.txt": "\n".join(versions) + "\n"}
    for name, path in (
        ("sparks.yaml", fleet),
        ("artifacts.lock.yaml", PROJECT / "artifacts.lock.yaml"),
    ):
        if path.is_file():
            found[f"laptop/{name}"] = path.read_text(errors="replace")
    return found
