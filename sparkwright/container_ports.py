"""Which unit of ours stands behind a port that docker holds. Pure.

A process in a container is in docker's control group, and a published port is held by docker's
proxy: neither names the unit.
"""

from __future__ import annotations

import re

from sparkwright.docker_run import DOCKER
from sparkwright.resources import Spec, State

PUBLISHED = re.compile(r":(\d+)->")


def probe() -> Spec:
    """A line for each running container of ours: its id, its unit's name, its published ports."""
    shown = "{{.ID}} {{.Names}} {{.Ports}}"
    words = ["ps", "--no-trunc", "--filter", "label=sparkwright=1", "--format", shown]
    return {"kind": "run", "argv": ["timeout", "20", DOCKER, *words]}


def owned(ports: State, containers: State) -> State:
    """The answer of the probe `ports`, with our unit's name where one of ours is the holder."""
    rows = [line.split(" ", 2) for line in containers.get("out", "").splitlines()]
    scopes = {f"docker-{row[0]}.scope": f"{row[1]}.service" for row in rows if len(row) > 1}
    behind = {port: f"{row[1]}.service" for row in rows for port in PUBLISHED.findall(row[-1])}
    held = ports.get("ports", {})
    return {
        **ports,
        "ports": {
            port: [_named(holder, scopes, behind.get(port)) for holder in holders]
            for port, holders in held.items()
        },
    }


def _named(holder: str, scopes: dict[str, str], published: str | None) -> str:
    for scope, unit in scopes.items():
        holder = holder.replace(scope, unit)
    return holder.replace("docker.service", published) if published else holder
