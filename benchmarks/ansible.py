"""The same checks by Ansible: its inventory, its settings, and what the playbook compares with."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import Run, timed
from sparkwright.fleet import load_fleet
from sparkwright.fleet_pyinfra import to_pyinfra
from sparkwright.fleet_settings import settings_defaults
from sparkwright.paths import PROJECT, machine_files
from sparkwright.serving import ACCEPTED
from sparkwright.site import UNIT_DIR, artifact, lock_of, need, planned
from sparkwright.weights_plan import spec_of
from tasks import base
from tests.lab.lab import Lab
from tests.lab.machine import Machine

PROGRAM = Path(sys.executable).with_name("ansible-playbook")
PLAYBOOK = Path(__file__).with_name("playbook.yml")
FORKS = 8
OK = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)


class Ansible:
    """An inventory and settings in a folder, for a converged lab."""

    def __init__(self, lab: Lab, fleet: Path, folder: Path) -> None:
        self.hosts = folder / "hosts.json"
        values = {**wanted(lab.machines[0], fleet), "files": str(_stage(folder / "files"))}
        self.hosts.write_text(json.dumps(inventory(lab, values)))
        empty = folder / "ansible.cfg"  # not the user's own
        empty.touch()
        common = "-o ControlMaster=auto -o ControlPersist=60s -o IdentitiesOnly=yes"
        known = f"-o UserKnownHostsFile={lab.keys.known_hosts} -o StrictHostKeyChecking=yes"
        self.env = {
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_FORKS": str(FORKS),
            "ANSIBLE_SSH_ARGS": f"-F none {common} {known}",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
            "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "ANSIBLE_CONFIG": str(empty),
            "ANSIBLE_INJECT_FACT_VARS": "True",
        }

    def run(self, limit: str) -> Run:
        """One run, which must change nothing. Raises RuntimeError when it does."""
        words = ["-i", str(self.hosts), "--limit", limit, str(PLAYBOOK)]
        run = timed([str(PROGRAM), *words], self.env)
        rows = OK.findall(run.out)
        if not rows or any(row[1:] != ("0", "0", "0") for row in rows):
            raise RuntimeError(run.out[-3000:])
        return run


def _stage(folder: Path) -> Path:
    """files/ without what Python leaves beside programs: a recursive copy takes everything."""
    for path, text in machine_files():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def inventory(lab: Lab, values: Mapping[str, Any]) -> dict[str, Any]:
    """Ansible's inventory; every machine wants the same."""
    hosts = {machine.name: {"ansible_host": machine.address} for machine in lab.machines}
    login = {
        "ansible_user": "spark",
        "ansible_ssh_private_key_file": str(lab.keys.user),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    return {"sparks": {"hosts": hosts, "vars": {**login, **values}}}


def wanted(machine: Machine, fleet: Path) -> dict[str, Any]:
    """The playbook's variables: from the same plan as the deploy, and from a converged machine."""
    defaults = settings_defaults(PROJECT / "group_data/all.py")
    hosts = dict(to_pyinfra(load_fleet(fleet, defaults))["sparks"])
    data = {**defaults, **hosts[machine.name]}
    item = planned(data)[0]
    unit = f"{item.unit}.service"
    vocabulary = artifact(data, "tiktoken-o200k_base")

    def seen(command: str) -> str:
        return machine.ssh(f"sudo sh -c {shlex.quote(command)}").stdout.rstrip("\n")

    current = f"{data['prefix']}/llama.cpp/current"
    client = f"{data['prefix']}/hub-client/current"
    pid = f"$(systemctl show -p MainPID --value {unit})"
    return {
        "arch": data["arch"],
        "os": data["os_releases"][0],  # type: ignore[index]
        "memory_kib": 2**20,
        "user": data["service_user"],
        "user_groups": seen("getent group video render | cut -d: -f1").split(),
        "prefix": data["prefix"],
        "data_dir": data["data_dir"],
        "directories": _directories(data),
        "program_folders": ["lib", "requirements"],
        "journal": base.JOURNAL,
        "sysctl": base.SYSCTL,
        "sysctl_text": base.sysctl_text(),
        "packages": [*base.PACKAGES, *data["packages_extra"]],  # type: ignore[misc]
        "build_seen": seen(
            f"c++ --version | head -n 1; uname -m; readlink {current}; cat {current}/.stamp"
        ),
        "client_seen": seen(f"python3 --version; readlink {client}; cat {client}/.stamp"),
        "weights": spec_of(need(item.weights), data, lock_of(data).hub),
        "vocabulary": {
            "url": vocabulary.url,
            "sha256": vocabulary.sha256,
            "names": [vocabulary.sha1_name, vocabulary.plain_name],
        },
        "unit": unit,
        "unit_path": f"{UNIT_DIR}/{unit}",
        "unit_text": seen(f"cat {UNIT_DIR}/{unit}") + "\n",
        "digest": seen(f"tr '\\0' '\\n' </proc/{pid}/environ | sed -n s/^SPARKWRIGHT_DIGEST=//p"),
        "record": f"{ACCEPTED}/{item.unit}.json",
    }


def _directories(data: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = [
        *[r for r in base.programs() if hasattr(r, "path") and not hasattr(r, "content")],
        *base.directories(data, data["service_user"]),
        *[r for r in base.journal() if hasattr(r, "mode") and not hasattr(r, "content")],
    ]
    return [
        {"path": r.path, "owner": r.owner, "group": r.group, "mode": r.mode}  # type: ignore[attr-defined]
        for r in rows
    ]
