"""A machine that exists only as answers: behind pyinfra's @fake connector, for whole deploys.

It stands in for a converged Spark, computed from the same pure functions that decide what is
wanted; a scenario overrides single answers. It runs nothing, so it proves what is asked and what
would be run, never that commands work: that is what the lab is for.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyinfra.connectors.fake import FakeConnector
from pyinfra.connectors.util import CommandOutput, OutputLine

from sparkwright import hub_client, llama_build, serving
from sparkwright.place import place_of
from sparkwright.resources import Directory, Fetched, File, Resource, State
from sparkwright.site import UNIT_DIR, artifact, planned
from sparkwright.units import render_unit
from tasks import base, llama_cpp, tiktoken
from tests.unit.fake_site import SCENARIO
from tests.unit.machine_case import GIB, HASH, HOST

NVCC = "/usr/local/cuda/bin/nvcc 13.0.88\n"
RUNS: Mapping[str, str] = {  # word in a question's argv -> what the command prints
    "nvcc": NVCC,
    "c++": "c++ 13.3.0\n",
    "uname": "aarch64\n",
    "build_check.py": "",
    "make_venv.py check": '{"wrong": []}',
    "--version": "Python 3.12.3\n",
    "ActiveEnterTimestamp": "@1000\n",
    "%Y": "900\n",
    "nvidia-smi": "NVIDIA GB10, 12.1, 580.95.05\n",
    "weights.py": json.dumps(
        {"ok": True, "manifest_digest": "feed", "missing": [], "changed": [], "leftovers": {}}
    ),
}


def state_of(wanted: Resource) -> State:
    """What the probe says of a thing that is as wanted."""
    if isinstance(wanted, Directory):
        return {"type": "dir", "owner": wanted.owner, "group": wanted.group, "mode": wanted.mode}
    if isinstance(wanted, File):
        sha256 = hashlib.sha256(wanted.content.encode()).hexdigest()
        names = {"owner": wanted.owner, "group": wanted.group, "mode": wanted.mode}
        return {"type": "file", "sha256": sha256, **names}
    if isinstance(wanted, Fetched):
        names = {"owner": "root", "group": "root", "mode": "0644"}
        return {"type": "file", "sha256": wanted.sha256, **names}
    raise TypeError(wanted)


class FakeMachine:
    """Answers of one converged machine.

    + overrides: (text in a question's JSON, its answer) pairs, the first that matches wins
    """

    def __init__(self, settings: Mapping[str, Any], overrides: list[list[Any]]) -> None:
        self.data, self.overrides = settings, overrides
        self.paths: dict[str, State] = {}
        self.units: dict[str, State] = {}
        self.stamps: list[str] = []
        resources = [
            *base.programs(),
            *base.directories(settings, settings["service_user"]),
            *base.journal(),
            File(base.SYSCTL_FILE, base.sysctl_text()),
            *tiktoken.wanted(settings),
        ]
        for wanted in resources:
            if isinstance(wanted, File | Directory | Fetched):
                self.paths[wanted.path] = state_of(wanted)
        self._install_builds()
        self._install_units()

    def _install_builds(self) -> None:
        build = llama_cpp.wanted(self.data)
        job = llama_build.plan(build, [self.plain(s) for s in llama_build.probes(build)]).job
        prefix, sha256 = self.data["prefix"], artifact(self.data, "hub-client").sha256 or ""
        asked = [self.plain(spec) for spec in hub_client.probes(prefix)]
        venv = hub_client.plan(prefix, sha256, asked).job
        if job is None or venv is None:
            raise ValueError("nothing is built yet, so both must be planned")
        self.stamps.append(f"{prefix}/llama.cpp/{job.digest}/.stamp")
        self.paths[f"{prefix}/llama.cpp/current"] = {"type": "link", "target": job.digest}
        self.paths[f"{prefix}/hub-client/current"] = {"type": "link", "target": venv.digest}
        self.paths[f"{prefix}/hub-client/current/.stamp"] = {"type": "file", "text": venv.digest}

    def _install_units(self) -> None:
        items, place = planned(self.data), place_of(self.data)
        key = f"{place.etc_dir}/api-key"
        if any(item.api_key == "generate" for item in items):
            own = {"owner": "root", "group": self.data["service_user"], "mode": "0640"}
            self.paths[key] = {"type": "file", "size": 43, "sha256": HASH, **own}
        for item in items:
            asked = [self.plain(spec) for spec in serving.probes(item, place)]
            service = serving.service_of(item, items, place, serving.seen(item, asked))
            path = f"{UNIT_DIR}/{item.unit}.service"
            self.paths[path] = state_of(File(path, render_unit(service)))
            running = item.state == "running"
            self.units[f"{item.unit}.service"] = {
                "ActiveState": "active" if running else "inactive",
                "UnitFileState": "enabled" if running else "disabled",
                "NeedDaemonReload": "no",
                "DropInPaths": "",
                "InvocationID": "cafe",
                "digest": service.digest if running else "",
            }
            seen = serving.seen(item, [self.plain(spec) for spec in serving.probes(item, place)])
            question = serving.question(item, place, seen)
            record = {key: question[key] for key in ("invocation", "asked")}
            self.paths[f"{serving.ACCEPTED}/{item.unit}.json"] = {
                "type": "file",
                "text": json.dumps(record),
            }

    def plain(self, spec: Mapping[str, Any]) -> State:
        """The answer of the converged machine."""
        match spec["kind"]:
            case "path":
                return self.paths.get(spec["path"], {"type": "missing"})
            case "unit":
                return self.units.get(spec["name"], {"ActiveState": "inactive"})
            case "packages":
                return {"versions": dict.fromkeys(spec["names"], "1")}
            case "user":
                home, groups = self.data["data_dir"], ["llm", "video", "render"]
                return {"exists": True, "home": home, "groups": groups, "known": groups}
            case "sysctl":
                return {"values": dict(base.SYSCTL)}
            case "host":
                return {**HOST, "clock": time.time()}
            case "disk":
                return {"free": 500 * GIB, "noexec": False, "readonly": False}
            case "ports":
                return {"ports": {}}
            case "listing":
                return {"paths": self.stamps}
            case "lock":
                return {"held": True, "by": None, "over": None}
        return self._run(" ".join(spec["argv"]))

    def _run(self, line: str) -> State:
        if line.startswith("grep"):
            return {"rc": 0, "out": "".join(f"{UNIT_DIR}/{name}\n" for name in self.units)}
        found = [out for word, out in RUNS.items() if word in line]
        return {"rc": 0, "out": found[0] if found else "", "err": ""}

    def answer(self, spec: Mapping[str, Any]) -> Any:
        """An override's answer, or the converged machine's."""
        text = json.dumps(spec)
        for word, state in self.overrides:
            if word in text:
                return state
        return self.plain(spec)


_MACHINES: dict[str, FakeMachine] = {}


def respond(connector: Any, command: str) -> tuple[bool, CommandOutput]:
    """What a command prints on the machine behind the connector; each is noted in a log."""
    scenario = json.loads(Path(os.environ[SCENARIO]).read_text())
    name = connector.host.name
    mine = scenario["hosts"][name]
    if command.startswith("command -v python3"):
        return _lines("python3\nroot\nsudo")
    if "python3" in command.split(" ", 3)[:3]:  # `env` with a variable may come first
        specs = json.loads(shlex.split(command)[-1])
        if name not in _MACHINES:
            _MACHINES[name] = FakeMachine(connector.host.data.dict(), mine.get("answers", []))
        if any(word in json.dumps(specs) for word in mine.get("nonsense", [])):
            return _lines("Welcome to spark-1!\n[]")
        return _lines(json.dumps([_MACHINES[name].answer(spec) for spec in specs]))
    with Path(scenario["log"]).open("a") as log:
        log.write(json.dumps([name, command]) + "\n")
    # Nothing runs, but a command that does nothing except fail is known for that.
    fails = command.startswith("printf") and command.endswith(">&2; exit 1")
    fails = fails or any(word in command for word in mine.get("failing", []))
    return not fails, CommandOutput([])


def _lines(text: str) -> tuple[bool, CommandOutput]:
    return True, CommandOutput([OutputLine("stdout", line) for line in text.splitlines()])


def inventory() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """The scenario's machines for pyinfra; from here on @fake answers as they do."""
    FakeConnector._lookup_response = respond  # type: ignore[method-assign, assignment]
    scenario = json.loads(Path(os.environ[SCENARIO]).read_text())
    common = {"fake_delay": 0, "fake_delay_jitter": 0, **scenario["data"]}
    hosts = scenario["hosts"].items()
    return {"sparks": [(name, {**common, **mine.get("data", {})}) for name, mine in hosts]}
