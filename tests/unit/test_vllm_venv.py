"""vLLM's environments: which one a machine should have for a profile, and what is missing."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkwright import uv_client
from sparkwright.artifacts import Artifact
from sparkwright.jobs import JobPlan
from sparkwright.paths import FILES
from sparkwright.resources import State
from sparkwright.vllm_profiles import (
    PATCHES,
    Checks,
    load_patch,
    names,
    profile_of,
    requirements,
)
from sparkwright.vllm_venv import Wanted, plan, probes
from tests.unit.machine_case import HASH

ROOT = "/opt/sparkwright/vllm"
WANTED = Wanted(
    profile=profile_of("stock"),
    requirements=f"vllm==0.33.0 --hash=sha256:{HASH}\ntorch==2.14.0 --hash=sha256:{HASH}\n",
    patches=(),
    uv="0.13.9",
    arch="aarch64",
    prefix="/opt/sparkwright",
    user="llm",
    keep=2,
)
NAME = WANTED.name
WHOLE = '{"wrong": [], "stale": false}'


def machine(
    stamps: tuple[str, ...] = (), current: str | None = None, check: str = WHOLE
) -> list[State]:
    """Answers to `probes`; environments are newest first."""
    return [
        {"type": "link", "target": current} if current else {"type": "missing"},
        {"paths": [f"{ROOT}/{name}/.stamp" for name in stamps]},
        {"rc": 0, "out": check},
        {"rc": 0, "out": "ubuntu 24.04\naarch64\n"},
    ]


def test_a_new_machine_installs_and_switches() -> None:
    found = plan(WANTED, machine(check='{"wrong": ["x"], "stale": true}'))
    assert found.drift == (
        f"{ROOT}/{NAME}: no environment of this set",
        f"{ROOT}/stock: points to nothing, not {NAME}",
    )
    job = found.job
    assert job is not None
    assert (job.label, job.stamp, job.user) == ("vllm-stock", f"{ROOT}/{NAME}/.stamp", "root")
    assert job.unit == f"sparkwright-vllm-{NAME}.service"
    assert (job.spec["dest"], job.spec["user"], job.spec["wheels"]) == (f"{ROOT}/{NAME}", "llm", 2)
    assert job.spec["uv"] == "/opt/sparkwright/uv/current/bin/uv"
    assert job.spec["checks"]["cuda"] == "13"
    assert found.after[0].shell == (
        f"ln -sfn {NAME} {ROOT}/.stock && mv -fT {ROOT}/.stock {ROOT}/stock"
    )


def test_a_finished_machine_needs_nothing() -> None:
    assert plan(WANTED, machine((NAME, "stock-00000000dead"), NAME)) == JobPlan()


@pytest.mark.parametrize(
    ("states", "drift", "works"),
    [
        (machine((NAME,), NAME, '{"wrong": ["/x: missing"], "stale": false}'),
         ["/x: missing"], True),
        (machine((NAME,), NAME, json.dumps({"wrong": list("abcdefg"), "stale": False})),
         [*"abcde", "vLLM: 2 more files differ"], True),
        (machine((NAME,), NAME, ""), ["vLLM: its files could not be looked at"], True),
        (machine((NAME,), NAME, '{"wrong": [], "stale": true}'),
         [f"{ROOT}/{NAME}/.introspect.json: is missing, or of another introspector"], False),
        (machine((NAME,), "stock-00000000dead"),
         [f"{ROOT}/stock: points to stock-00000000dead, not {NAME}"], False),
        (machine(("stock-00000000dead",), "stock-00000000dead"),
         [f"{ROOT}/{NAME}: no environment of this set",
          f"{ROOT}/stock: points to stock-00000000dead, not {NAME}"], True),
        ([{"error": "OSError"}] * 4,
         [f"{ROOT}/{NAME}: no environment of this set",
          f"{ROOT}/stock: points to nothing, not {NAME}"], True),
    ],
)  # fmt: skip
def test_each_drift_costs_only_what_it_must(
    states: list[State], drift: list[str], works: bool
) -> None:
    found = plan(WANTED, states)
    assert list(found.drift) == drift
    assert (found.job is not None) == works
    stale = "introspector" in drift[0]
    assert ("make_vllm.py introspect" in found.after[0].shell) == stale


CHANGES: dict[str, Callable[[], Wanted]] = {
    "another wheel": lambda: dataclasses.replace(WANTED, requirements=f"x --hash=sha256:{HASH}\n"),
    "a patch": lambda: dataclasses.replace(WANTED, patches=(load_patch("cutlass-fp4-import"),)),
    "uv": lambda: dataclasses.replace(WANTED, uv="0.13.10"),
    "architecture": lambda: dataclasses.replace(WANTED, arch="x86_64"),
    "Python": lambda: _changed(python="3.13"),
    "CUDA": lambda: _changed(checks=Checks(cuda="14")),
    "imports": lambda: _changed(checks=Checks(imports=("torch",))),
    "profile": lambda: _changed(name="eugr"),
}


def _changed(**fields: Any) -> Wanted:
    return dataclasses.replace(WANTED, profile=dataclasses.replace(WANTED.profile, **fields))


@pytest.mark.parametrize("what", CHANGES)
def test_each_changed_input_is_a_new_directory(what: str) -> None:
    changed = CHANGES[what]()
    assert changed.name != NAME
    found = plan(changed, machine((NAME,), NAME))
    assert found.job is not None


@pytest.mark.parametrize("what", ["keep", "prefix", "user"])
def test_where_it_lies_and_how_many_stay_do_not_change_it(what: str) -> None:
    value: Any = 5 if what == "keep" else "/x"
    assert dataclasses.replace(WANTED, **{what: value}).name == NAME


def prune(root: Path, keep: int, stamps: list[str]) -> list[str]:
    """What is left of the environments below root once a plan's last commands ran."""
    wanted = dataclasses.replace(WANTED, prefix=str(root), keep=keep)
    (root / "vllm" / wanted.name).mkdir(parents=True)
    (root / "vllm" / wanted.name / ".stamp").touch()
    states = machine(("x",), "stock-0ld")
    states[1] = {"paths": [f"{root}/vllm/{name}/.stamp" for name in [wanted.name, *stamps]]}
    for command in plan(wanted, states).after:
        subprocess.run(["sh", "-c", command.shell], check=True)
    assert str((root / "vllm/stock").readlink()) == wanted.name
    return sorted(path.name for path in (root / "vllm").iterdir() if path.name != wanted.name)


def test_the_newest_stay_and_other_profiles_are_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "a prefix"
    one, two = "stock-00000000aaaa", "stock-00000000bbbb"
    others = ["eugr-00000000aaaa", "stock-0.17.1-00000000aaaa"]
    cut = ["stock-00000000cccc", "stock-00000000cccc.new", "stock-00000000aaaa.old"]
    for name in (one, two, *others, *cut):
        (root / "vllm" / name / "lib").mkdir(parents=True)
    for name in (one, two, *others):
        (root / "vllm" / name / ".stamp").touch()
    assert prune(root, 2, [one, two]) == sorted(["stock", one, *others])


def test_an_environment_in_use_stays(tmp_path: Path) -> None:
    """A server's program is the system's Python; its libraries tell where it came from."""
    name = "stock-00000000aaaa"
    library = tmp_path / "vllm" / name / "lib/mapped.so"
    library.parent.mkdir(parents=True)
    (tmp_path / "vllm" / name / ".stamp").touch()
    library.write_bytes(b"x" * 4096)
    code = (
        "import mmap, sys; f = open(sys.argv[1], 'rb'); "
        "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print('up', flush=True); input()"
    )
    words = ["python3", "-c", code, str(library)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert prune(tmp_path, 1, [name]) == ["stock", name]
        process.communicate(b"\n")
    subprocess.run(["rm", "-r", tmp_path / "vllm" / below(tmp_path).name], check=True)
    assert prune(tmp_path, 1, [name]) == ["stock"]


def below(root: Path) -> Wanted:
    """The wanted environment below another prefix."""
    return dataclasses.replace(WANTED, prefix=str(root))


def test_the_wanted_environment_is_looked_at_without_running_it() -> None:
    asked = probes(WANTED)
    hexes = "[0-9a-f]" * 12
    assert asked[1] == {"kind": "listing", "pattern": f"{ROOT}/stock-{hexes}/.stamp"}
    words = ["/opt/sparkwright/lib/make_vllm.py", "check", f"{ROOT}/{NAME}"]
    assert asked[2] == {"kind": "program", "argv": words}


# --- profiles -------------------------------------------------------------------------------------


def test_our_profiles_want_cuda_13_and_equal_flashinfer() -> None:
    for name in names():
        profile = profile_of(name)
        assert (profile.python, profile.checks.cuda) == ("3.12", "13")
        assert profile.artifact == f"vllm-{name}"
        assert "python3.12-dev" in profile.packages
        for patch in profile.patches:
            assert load_patch(patch)["name"] == patch


def test_another_profile_needs_no_code() -> None:
    said = {"cuda": None, "python": "3.11", "imports": ("torch",), "equal": (), "missing_ok": ()}
    found = profile_of("lab-cpu", Artifact("vllm-lab-cpu", "wheels", checks=said))
    assert found.checks == Checks(cuda=None, imports=("torch",), equal=())
    assert (found.python, found.wheels, found.patches) == ("3.11", (), ())
    assert "python3.11-dev" in found.packages


def test_the_whole_set_is_the_locked_lines_and_a_line_for_each_further_wheel() -> None:
    more = Artifact("stock-x", "wheel", url="https://h/x%2Bcu130.whl", sha256=HASH, project="x")
    text = requirements("# made\na==1 --hash=sha256:ab\n\n", [more])
    assert text == f"a==1 --hash=sha256:ab\nx @ https://h/x%2Bcu130.whl --hash=sha256:{HASH}\n"


def test_every_patch_file_belongs_to_a_patch() -> None:
    diffs = {load_patch(path.stem)["diff"] for path in PATCHES.glob("*.toml")}
    assert {path.read_text() for path in PATCHES.glob("*.diff")} == diffs


def test_uv_is_the_pinned_one() -> None:
    text = (FILES / "opt/sparkwright/requirements/uv.txt").read_text()
    version = uv_client.PROOF.split("b'")[1].split("'")[0]
    assert f"\nuv=={version} " in text
    states: list[State] = [{"rc": 0, "out": "Python 3.12.3\n"}, {}, {}, {}]
    job = uv_client.plan("/opt/sparkwright", HASH, states).job
    assert job is not None
    assert job.label == "uv"
    assert job.spec["dest"].startswith("/opt/sparkwright/uv/")
