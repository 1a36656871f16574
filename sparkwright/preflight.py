"""Checks before anything is changed: one machine's answers in, its problems out. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright import library, memory, serving, vllm_needs
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.preflight_seen import Seen, places
from sparkwright.site import Planned

GIB = 2**30
# Free space for a build (source 176 MB and objects, measured) and two installed builds.
BUILD_GIB = 2
# A venv of vLLM 0.33.0 has 9.0 GB, one of 0.17.1 9.4 GB (measured); fetched wheels lie beside it.
VENV_GIB = 12


def check(data: Mapping[str, Any], items: Sequence[Planned], found: Seen) -> Problems:
    """Everything that is wrong with one machine, or that this fleet asks too much of it."""
    problems = Problems()
    _system(data, found, problems)
    _gpu(data, found, problems)
    _memory(data, items, found, problems)
    _disk(data, items, found, problems)
    _ports(items, found, problems)
    library.check(data, found.library, problems)
    for path in found.units.get("out", "").split():
        problems.add(
            path,
            "is not ours and has the name of a unit that we would write",
            "rename it, or the recipe",
        )
    return problems


def _system(data: Mapping[str, Any], found: Seen, problems: Problems) -> None:
    host = found.host
    if host["arch"] != data["arch"]:
        problems.add(
            "arch",
            f"is {host['arch']}, not {data['arch']}",
            "set `arch` for a machine that is not a Spark",
        )
    if host["os"] not in data["os_releases"]:
        problems.add(
            "os",
            f"is {host['os']}, not one of {', '.join(data['os_releases'])}",
            "set `os_releases` if this is meant",
        )
    if tuple(host["python"]) < (3, 11):
        problems.add(
            "python3",
            f"is {host['python'][0]}.{host['python'][1]}, 3.11 or newer is needed",
            "upgrade the system's python3",
        )
    if host["euid"] != 0:
        problems.add("sudo", "commands do not run as root", "check `_sudo` and the sudo rule")
    missing = [tool for tool, place in host["tools"].items() if not place]
    if missing:
        problems.add("tools", f"{', '.join(missing)} not found", "is this a systemd machine?")
    _rim(data, found, problems)


def _rim(data: Mapping[str, Any], found: Seen, problems: Problems) -> None:
    """What lies between the machine and the laptop: the clock, and the way to root."""
    limit = data["clock_offset_max_s"]
    if abs(found.offset_s) > limit:
        way = "ahead of" if found.offset_s > 0 else "behind"
        problems.add(
            "clock",
            f"{abs(found.offset_s):.0f} s {way} the laptop, at most {limit} s is accepted",
            "set it: sudo timedatectl set-time, or start an NTP client",
        )


def _gpu(data: Mapping[str, Any], found: Seen, problems: Problems) -> None:
    if not data["gpu_required"]:
        return
    rows = [
        [cell.strip() for cell in line.split(",")] for line in found.gpu.get("out", "").splitlines()
    ]
    gpus = [row for row in rows if len(row) == 3 and re.fullmatch(r"[\d.]+", row[1])]
    if found.gpu.get("rc") != 0 or not gpus:
        text = (found.gpu.get("out", "") + found.gpu.get("err", "")).strip()[:200]
        problems.add(
            "gpu",
            f"nvidia-smi does not show one: {text}",
            "mend the driver (sparkwright never changes it), then run again",
        )
        return
    for name, capability, driver in gpus:
        if capability != data["gpu_compute_capability"]:
            problems.add(
                "gpu",
                f"{name} has compute capability {capability}, not {data['gpu_compute_capability']}",
                "is this a GB10?",
            )
        number = re.match(r"\d+", driver)  # "[N/A]" when the driver and its tools do not match
        if number is None or int(number[0]) < data["gpu_driver_min"]:
            problems.add(
                "gpu",
                f"driver is {driver}, CUDA 13 needs {data['gpu_driver_min']} or newer",
                "use the DGX dashboard's update; sparkwright never changes it",
            )


def _memory(
    data: Mapping[str, Any], items: Sequence[Planned], found: Seen, problems: Problems
) -> None:
    room = serving.available_gib(found.host, data["memory_reserve_gib"])
    try:
        memory.plan(serving.needs(items), room)
    except SparkwrightError as error:
        for line in str(error).splitlines():
            problems.add(*line.split(": ", 1))


def _disk(
    data: Mapping[str, Any], items: Sequence[Planned], found: Seen, problems: Problems
) -> None:
    lines = found.held.get("out", "").splitlines()
    held = {path: size for path, _, size in (line.rpartition("\t") for line in lines)}
    models = {item.weights.directory: item.weights for item in items if item.weights}
    missing = sum(
        f.size
        for model in models.values()
        for f in model.files
        # What a push brought and nobody linked yet takes no room a second time.
        if not any(held.get(f"{place}/{f.path}") == str(f.size) for place in places(data, model))
    )
    weights = f" ({missing / GIB:.1f} GiB of weights are missing)"
    venvs = _new_venvs(data, found)
    for_venvs = f" ({', '.join(venvs)} to be made)" if venvs else ""
    wanted = {
        "data_dir": (missing + data["min_free_gib"] * GIB, weights),
        "prefix": ((BUILD_GIB + VENV_GIB * len(venvs)) * GIB, for_venvs),
    }
    for key, (size, why) in wanted.items():
        disk = found.disks[key]
        if disk.get("readonly"):
            problems.add(str(data[key]), "is on a read-only file system", "mount it read-write")
        elif disk.get("free", 0) < size:
            problems.add(
                str(data[key]),
                f"{disk.get('free', 0) / GIB:.1f} GiB free, {size / GIB:.1f} GiB are needed{why}",
                f"free space, or move {key}",
            )


def _new_venvs(data: Mapping[str, Any], found: Seen) -> list[str]:
    """vLLM environments that are not there yet; what the lock lacks is said elsewhere."""
    try:
        return [e.name for e in vllm_needs.environments(data) if e.name not in found.venvs]
    except SparkwrightError:
        return []


def _ports(items: Sequence[Planned], found: Seen, problems: Problems) -> None:
    # A unit of ours that is no longer listed is removed before the others start.
    stay = {item.unit for item in items}
    paths = found.ours.get("out", "").split()
    gone = {path.rsplit("/", 1)[1].removesuffix(".service") for path in paths} - stay
    for item in items:
        free = tuple(f", {unit}.service)" for unit in (item.unit, *gone))
        holders = found.ports.get("ports", {}).get(str(item.port), [])
        for holder in holders:
            if not holder.endswith(free) and item.state == "running":
                problems.add(
                    f"port {item.port}",
                    f"is held by {holder}, {item.unit} wants it",
                    "stop that program, or set another port",
                )
