"""One build of llama.cpp for four machines, beside one machine's build of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from benchmarks.measure import Figure
from benchmarks.spread import fleet, pyinfra, repository
from tests.lab import fleetfile
from tests.lab.lab import Lab

MACHINES = 5  # the first one builds for itself


def figures(lab: Lab, folder: Path, say: Callable[[str], None]) -> list[Figure]:
    """Both builds compile everything, and a flag makes the second one new."""
    repository(lab, "build", 1, 1 << 20)
    flags = fleetfile.SETTINGS["llama_cpp_cmake_flags"]
    # cmake finds the lab's ccache by itself, and a build out of it takes a twentieth of the time.
    env = {"CCACHE_DISABLE": "1"}
    settings: dict[str, object] = {"llama_cpp_build_env": env, "llama_cpp_cmake_flags": flags}
    one = fleet(lab, folder, "build", settings)
    pyinfra(one, "prepare")
    alone = pyinfra(one, "build", "--limit", "spark-1")
    say(f"one machine builds in {alone:.0f} s")
    data = yaml.safe_load(one.read_text())
    data["defaults"]["settings"]["llama_cpp_cmake_flags"].append("-DSPARKWRIGHT_BENCHMARK=1")
    four = one.with_name("four.yaml")
    four.write_text(yaml.safe_dump(data, sort_keys=False))
    shared = pyinfra(four, "build", "--limit", "spark-[2-5]")
    say(f"four machines have one build in {shared:.0f} s")
    return [Figure("build_once_4", shared, "s", alone)]
