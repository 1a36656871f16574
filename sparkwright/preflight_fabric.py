"""Checks of clusters and of machines against each other, before anything is changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sparkwright import fabric, fabric_judge
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.resources import Spec, State

# Who a machine is (machine-id(5)), and which of its boots this is (proc(5)).
_IDS: Final = ("/etc/machine-id", "/proc/sys/kernel/random/boot_id")
# What a converge changes itself is compared afterwards: sparkwright verify.
_BEFORE: Final = ("kernel", "driver")


@dataclass
class Together:
    """What machines of one run say, to be compared when all have answered.

    + ids: name -> (machine id, boot id)
    + versions: cluster -> spark -> what -> version; may_differ: cluster -> what is not compared
    + serving: clusters that serve something together
    """

    ids: dict[str, tuple[str, str]] = field(default_factory=dict)
    versions: dict[str, dict[str, Mapping[str, str]]] = field(default_factory=dict)
    may_differ: dict[str, Sequence[str]] = field(default_factory=dict)
    serving: set[str] = field(default_factory=set)

    def add(self, name: str, data: Mapping[str, Any], states: Sequence[State]) -> None:
        """One machine's answers to `probes`."""
        machine, boot = (state.get("text", "").strip() for state in states[: len(_IDS)])
        self.ids[name] = (machine, boot)
        cluster = data["cluster"]
        if not cluster:
            return
        try:
            seen = fabric.read(states[len(_IDS)])
        except SparkwrightError:  # `check` has told it
            return
        found = {what: seen["versions"].get(what, "not there") for what in _BEFORE}
        self.versions.setdefault(cluster["name"], {})[name] = found
        self.may_differ[cluster["name"]] = data["cluster_may_differ"]
        if cluster["serve"]:
            self.serving.add(cluster["name"])

    def problems(self) -> list[str]:
        """What forbids the run, a line each, sorted by machine."""
        ids = dict(sorted(self.ids.items()))
        lines = [f"{name}: {what}; {hint}" for name, what, hint in fabric_judge.doubles(ids)]
        for cluster in sorted(self.serving):
            lines += [f"{line}; update the one that lags, or say so: cluster_may_differ"
                      for line in self._differing(cluster)]  # fmt: skip
        return lines

    def notes(self) -> list[str]:
        """What may become a problem: versions that differ where nothing is served together yet."""
        clusters = sorted(set(self.versions) - self.serving)
        return [line for cluster in clusters for line in self._differing(cluster)]

    def _differing(self, cluster: str) -> list[str]:
        members = dict(sorted(self.versions[cluster].items()))
        found = fabric_judge.differences(members, self.may_differ[cluster])
        return [f"cluster {cluster}: {what}" for what in found]


def probes(data: Mapping[str, Any]) -> list[Spec]:
    """Questions: who the machine is, and for members of a cluster its network."""
    ids: list[Spec] = [{"kind": "path", "path": path, "text": True} for path in _IDS]
    return [*ids, *([fabric.probe(data)] if data["cluster"] else [])]


def check(data: Mapping[str, Any], states: Sequence[State], problems: Problems) -> None:
    """Why the fabric of one machine cannot be configured."""
    cluster = data["cluster"]
    if not cluster:
        return
    try:
        seen = fabric.read(states[len(_IDS)])
    except SparkwrightError as error:
        problems.add(*str(error).split(": ", 1))
        return
    chosen = fabric.halves(cluster, cluster["rank"], seen, problems)
    fabric.refused(chosen, seen, data["fabric_speed_mbps"], problems)


def local_name(data: Mapping[str, Any]) -> str:
    """A note on an address that multicast DNS answers, or nothing.

    It may answer with the fabric's address (NVIDIA/dgx-spark-playbooks#56).
    """
    address = str(data.get("ssh_hostname", "")).lower().removesuffix(".")
    if not address.endswith(".local"):
        return ""
    return f"{address} may lead to another interface at another time; a fixed address does not"
