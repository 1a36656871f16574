"""CUDA toolkit: new enough or not, what apt is told, and the proof at the end."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkwright import cuda
from sparkwright.llama_flags import nvcc_probe
from sparkwright.resources import File

REPOSITORY = cuda.Repository(
    url="http://repo/",
    fingerprint="A" * 40,
    keyring_url="http://repo/keyring 1.deb",
    keyring_sha256="ab" * 32,
    packages={"cuda-nvcc-13-0": "13.0.88-1", "cuda-cudart-13-0": "13.0.96-1"},
)
NOWHERE = "no nvcc in $CUDA_HOME or /usr/local/cuda*"


@pytest.mark.parametrize(
    ("nvcc", "minimum", "drift"),
    [
        ("/usr/local/cuda/bin/nvcc 13.0.88", "13.0", None),
        ("/usr/local/cuda/bin/nvcc 13.0.88", "13.0.88", None),
        ("/usr/local/cuda/bin/nvcc 14.0.1", "13.0", None),
        ("/usr/local/cuda/bin/nvcc 13.10.1", "13.9", None),
        ("/a/nvcc 12.8.93\n/b/nvcc 13.0.88", "13.0", None),
        ("/usr/local/cuda/bin/nvcc 12.8.93", "13.0", "/usr/local/cuda/bin/nvcc is 12.8.93"),
        ("/usr/local/cuda/bin/nvcc 13.0.88", "13.1", "/usr/local/cuda/bin/nvcc is 13.0.88"),
        ("", "13.0", NOWHERE),
        ("/broken/nvcc ", "13.0", NOWHERE),
    ],
)
def test_drift(nvcc: str, minimum: str, drift: str | None) -> None:
    wanted = [f"CUDA toolkit: {drift}, {minimum} or newer is needed"] if drift else []
    assert cuda.drift([{"out": nvcc}], minimum) == wanted


def test_drift_without_an_answer() -> None:
    assert cuda.drift([{"error": "OSError"}], "13.0") == [
        f"CUDA toolkit: {NOWHERE}, 13.0 or newer is needed"
    ]


def test_install_goes_in_order_and_installs_no_keyring_package() -> None:
    shells = [command.shell for command in cuda.install(REPOSITORY)]
    order = ["fetch.py 'http://repo/keyring 1.deb'", "apt_key.py", cuda.PIN, cuda.SOURCES,
             "apt_install.py --update"]  # fmt: skip
    assert [next(i for i, s in enumerate(shells) if word in s) for word in order] == list(range(5))
    assert f"--sha256 {'ab' * 32}" in shells[0]
    assert f"--fingerprint {'A' * 40}" in shells[1]
    assert shells[4].endswith(" cuda-cudart-13-0=13.0.96-1 cuda-nvcc-13-0=13.0.88-1")
    assert not any("dpkg -i" in text or "apt-get install" in text for text in shells)


def test_only_our_source_is_updated() -> None:
    assert f"apt_install.py --update {cuda.SOURCES} cuda" in cuda.install(REPOSITORY)[4].shell


def test_the_source_is_signed_by_the_pinned_key_alone() -> None:
    lines = cuda.sources_text(REPOSITORY).splitlines()
    assert lines[1:] == [
        "Types: deb",
        "URIs: http://repo/",
        "Suites: /",
        f"Signed-By: {cuda.KEYRING}",
    ]


def test_drivers_can_never_come_from_there() -> None:
    drivers, ours = cuda.pin_text(REPOSITORY).split("\n\n")
    assert drivers.splitlines()[-1] == "Pin-Priority: -1"
    for name in ("cuda-drivers*", "nvidia-*", "libnvidia-*"):
        assert name in drivers
    assert "Package: cuda-cudart-13-0 cuda-nvcc-13-0" in ours


def proof(minimum: str, versions: list[str]) -> Any:
    """Run the proof with a probe that finds these versions."""
    lines = "".join(f"echo '/x/nvcc {version}';" for version in versions) or ":;"
    probe = {"argv": ["sh", "-c", lines.removesuffix(";")]}
    command = cuda.proof(minimum, probe)
    return subprocess.run(["sh", "-c", command.shell], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("minimum", "versions", "fine"),
    [
        ("13.0", ["13.0.88"], True),
        ("13.0", ["12.8.93", "13.0.88"], True),
        ("13.0", ["13.0.88", "12.8.93"], True),
        ("13.9", ["13.10.1"], True),
        ("13.0", [], False),
        ("13.0", ["12.8.93"], False),  # an old one that was there before proves nothing
        ("13.10", ["13.9.1"], False),
        ("13.0", [""], False),
    ],
)
def test_the_proof_wants_a_new_enough_nvcc(minimum: str, versions: list[str], fine: bool) -> None:
    done = proof(minimum, versions)
    assert done.returncode == (0 if fine else 1)
    text = f"cuda: no nvcc {minimum} or newer after the installation\n"
    assert done.stderr == ("" if fine else text)


def test_the_proof_runs_with_the_real_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin/nvcc"
    fake.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 98.1, V98.1.23'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    for minimum, status in (("98.0", 0), ("99.0", 1)):
        command = cuda.proof(minimum, nvcc_probe())
        done = subprocess.run(["sh", "-c", command.shell], capture_output=True, check=False)
        assert done.returncode == status


# --- what we installed once is kept as it was made -----------------------------------------------

ROOT = {"type": "file", "owner": "root", "group": "root", "mode": "0644"}
PRINT = f"pub:-:4096:1:X:1:::-:::scSC:\nfpr:::::::::{'A' * 40}:\nuid:-::::1::Y::lab:\n"


def machine(**changes: Any) -> list[Any]:
    """Answers of a machine whose toolkit we installed; `changes` by name of the question."""
    files = [{**ROOT, "sha256": hashlib.sha256(file.content.encode()).hexdigest()}
             for file in cuda.files(REPOSITORY) if isinstance(file, File)]  # fmt: skip
    states = {
        "nvcc": {"rc": 0, "out": "/usr/local/cuda/bin/nvcc 13.0.88\n"},
        "pin": files[0],
        "sources": files[1],
        "keyring": {**ROOT, "sha256": "c"},
        "gpg": {"rc": 0, "out": PRINT},
        "packages": {"versions": {"cuda-nvcc-13-0": "13.9", "cuda-cudart-13-0": "13.0.96-1"}},
    }
    return list({**states, **changes}.values())


EDITED = {**ROOT, "sha256": "0"}
GONE = {"type": "missing"}
OTHER = {"rc": 0, "out": PRINT.replace("A" * 40, "B" * 40)}
MENDED: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "as installed": ({}, [], []),
    "not from us": (
        {"pin": GONE, "sources": GONE, "keyring": EDITED, "gpg": OTHER,
         "packages": {"versions": {}}}, [], [],
    ),
    "source edited": (
        {"sources": EDITED},
        [f"{cuda.SOURCES}: content differs"],
        [f"mv -fT \"$t\" {cuda.SOURCES}"],
    ),
    "source gone": (
        {"sources": GONE, "gpg": {"rc": 0, "out": PRINT}},
        [f"{cuda.SOURCES}: missing, not a file"], [f"mv -fT \"$t\" {cuda.SOURCES}"],
    ),
    "pin gone": (
        {"pin": GONE}, [f"{cuda.PIN}: missing, not a file"], [f"mv -fT \"$t\" {cuda.PIN}"],
    ),
    "key replaced": (
        {"gpg": OTHER},
        [f"{cuda.KEYRING}: its keys are ['{'B' * 40}'], not {'A' * 40}"],
        ["fetch.py", "apt_key.py"],
    ),
    "a second key": (
        {"gpg": {"rc": 0, "out": f"{PRINT}{OTHER['out']}"}},
        [f"{cuda.KEYRING}: its keys are ['{'A' * 40}', '{'B' * 40}'], not {'A' * 40}"],
        ["fetch.py", "apt_key.py"],
    ),
    "key that apt cannot read": (
        {"keyring": {**ROOT, "mode": "0600"}},
        [f"{cuda.KEYRING}: mode is 0600, not 0644"],
        ["fetch.py", "apt_key.py"],
    ),
    "no key": (
        {"keyring": GONE, "gpg": {"rc": 2, "out": ""}},
        [f"{cuda.KEYRING}: missing, not a file"],
        ["fetch.py", "apt_key.py"],
    ),
    "a package removed": (
        {"packages": {"versions": {"cuda-nvcc-13-0": "13.0.88-1"}}},
        ["package cuda-cudart-13-0: not installed"],
        ["apt_install.py cuda-cudart-13-0=13.0.96-1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MENDED)
def test_only_what_differs_of_ours_is_mended(name: str) -> None:
    changes, drift, words = MENDED[name]
    found = cuda.plan(REPOSITORY, "13.0", machine(**changes))
    assert list(found.drift) == drift
    assert len(found.commands) == len(words)
    for command, word in zip(found.commands, words, strict=True):
        assert word in command.shell


def test_an_old_toolkit_is_installed_anew_whole() -> None:
    found = cuda.plan(REPOSITORY, "13.0", machine(nvcc={"rc": 0, "out": ""}, sources=EDITED))
    assert found.drift == (f"CUDA toolkit: {NOWHERE}, 13.0 or newer is needed",)
    assert found.commands[:-1] == tuple(cuda.install(REPOSITORY))


def test_the_questions_and_the_answers_have_one_order() -> None:
    kinds = [spec.get("path", spec["kind"]) for spec in cuda.probes(["b", "a"])]
    assert kinds == ["run", cuda.PIN, cuda.SOURCES, cuda.KEYRING, "run", "packages"]
    assert cuda.probes(["b", "a"])[5]["names"] == ["a", "b"]
