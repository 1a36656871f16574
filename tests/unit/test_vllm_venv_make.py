"""files/opt/sparkwright/lib/make_vllm.py with the real uv, on wheels made here."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkwright.vllm_profiles import Checks, as_data
from sparkwright.wheel_sets import find_uv
from tests.unit.machine_case import program
from tests.unit.wheel_maker import good_set, line_of, make_wheel, shared_library, torch, vllm

VENV, CHECKS, PATCHES, INSTALL = map(
    program, ("make_venv", "vllm_checks", "vllm_patches", "vllm_install")
)
MAKE = program("make_vllm")
MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"
FACTS = '{"engine": "vllm"}'


class Bench:
    """A prefix with wheels, and the program."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.wheels = root, root / "wheels"
        self.dest = root / "vllm" / "stock-d1gest"
        self.set = good_set(self.wheels)
        self.checks: dict[str, Any] = as_data(Checks())
        self.patches: list[dict[str, Any]] = []
        self.accounts: list[object] = []
        self.owners: set[object] = set()
        self._drop_privileges_once(monkeypatch)
        # Reading facts out of a real vllm is the introspector's own matter.
        monkeypatch.setattr(MAKE, "introspect", self._introspect)

    def _drop_privileges_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Giving files and processes to another account needs root: note it, do the rest."""
        real: Callable[..., Any] = subprocess.Popen

        def popen(argv: Any, **options: Any) -> Any:
            if "user" in options:
                self.accounts.append((options.pop("user"), options.pop("group")))
                assert options.pop("extra_groups") == []
            return real(argv, **options)

        monkeypatch.setattr(INSTALL.subprocess, "Popen", popen)
        monkeypatch.setattr(MAKE.os, "chown", lambda *a, **_: self.owners.add(a[1:]))
        monkeypatch.setattr(MAKE.shutil, "chown", lambda *a, **_: self.owners.add(a[1:]))

    @staticmethod
    def _introspect(venv: Path) -> None:
        (venv / MAKE.FACTS).write_text(FACTS)
        (venv / MAKE.SOURCE).write_text(MAKE.introspector())

    def replace(self, name: str, wheel: Path | None) -> None:
        """Another wheel, or none, in place of a distribution's."""
        kept = [path for path in self.set if path.name.split("-")[0] != name]
        self.set = [*kept, *([wheel] if wheel else [])]

    @property
    def requirements(self) -> str:
        return "".join(f"{line_of(path)}\n" for path in self.set)

    def make(self, **changes: Any) -> tuple[int, str, str]:
        """(exit status, phase, message)"""
        spec = {
            "profile": "stock",
            "dest": str(self.dest),
            "requirements": self.requirements,
            "wheels": len(self.set),
            "python": MINOR,
            "uv": find_uv(),
            "user": pwd.getpwuid(os.getuid()).pw_name,
            "cache": str(self.dest.with_name(".cache-stock")),
            "find_links": [str(self.wheels)],
            "no_index": True,
            "patches": self.patches,
            "checks": self.checks,
            "inputs": {"x": 1},
            "digest": "d1gest",
            "stamp": f"{self.dest}/.stamp",
            "progress": f"{self.root}/progress",
            **changes,
        }
        (self.root / "spec.json").write_text(json.dumps(spec))
        status = MAKE.main([f"{self.root}/spec.json"])
        said = json.loads((self.root / "progress").read_text())
        return status, said["phase"], said["message"]

    def check(self, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        capsys.readouterr()
        assert MAKE.main(["check", str(self.dest)]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    # find_python looks where the system has it; the tests' Python may be elsewhere.
    monkeypatch.setattr(INSTALL, "PLACES", f"{INSTALL.PLACES}:{Path(sys.executable).parent}")
    monkeypatch.setattr(INSTALL, "HEADERS", f"print({str(tmp_path)!r})")
    (tmp_path / "Python.h").touch()
    return Bench(tmp_path, monkeypatch)


def test_a_good_set_is_installed_checked_recorded_and_stamped(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.make() == (0, "done", "stock-d1gest")
    dest = bench.dest
    assert (dest / ".stamp").read_text() == "d1gest"
    assert (dest / ".introspect.json").read_text() == FACTS
    assert json.loads((dest / ".record.json").read_text()) == {"inputs": {"x": 1}, "patches": []}
    assert (dest / "requirements.txt").read_text() == bench.requirements
    shown = subprocess.run([dest / "bin/vllm"], capture_output=True, text=True, check=True)
    assert shown.stdout == "vllm of the tests\n"
    assert bench.check(capsys) == {"wrong": [], "stale": False}
    assert sorted(path.name for path in dest.parent.iterdir()) == ["stock-d1gest"]
    assert list(dest.rglob("__pycache__"))  # the service account cannot write them later
    assert not (dest / ".lock").exists()


def test_wheels_run_as_the_service_account_and_belong_to_root(bench: Bench) -> None:
    assert bench.make()[0] == 0
    me = pwd.getpwuid(os.getuid()).pw_name
    assert len(bench.accounts) == 5  # venv, install, check, and the two imports
    assert {*map(str, bench.accounts)} == {str((me, me))}
    assert (0, 0) in bench.owners


def test_damage_is_found_and_mended_beside(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.make()[0] == 0
    site = next(bench.dest.glob("lib/python3*/site-packages"))
    (site / "cutlass/__init__.py").unlink()
    (site / "torch/version.py").write_text("cuda = '13.0'\n")
    assert bench.check(capsys)["wrong"] == [
        f"{site}/cutlass/__init__.py: missing",
        f"{site}/torch/version.py: changed",
    ]
    assert bench.make()[0] == 0
    assert bench.check(capsys)["wrong"] == []
    assert sorted(path.name for path in bench.dest.parent.iterdir()) == ["stock-d1gest"]


def test_lost_or_outdated_facts_need_no_new_environment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.make()[0] == 0
    (bench.dest / ".introspect.json").unlink()
    assert bench.check(capsys) == {"wrong": [], "stale": True}
    MAKE.introspect(bench.dest)
    assert bench.check(capsys) == {"wrong": [], "stale": False}
    monkeypatch.setattr(MAKE, "introspector", lambda: "another")
    assert bench.check(capsys) == {"wrong": [], "stale": True}


BREAK: dict[str, tuple[Callable[[Bench], None], str]] = {
    "CPU torch": (
        lambda b: b.replace(
            "torch", make_wheel(b.wheels, "torch", "2.14.0+cpu", torch(None, "2.14.0+cpu"))
        ),
        "torch/version.py: torch 2.14.0+cpu is for no CUDA (a CPU wheel), the profile wants CUDA "
        "13; take torch from another index in the wheel set: sparkwright lock --wheels",
    ),
    "torch for CUDA 12": (
        lambda b: b.replace("torch", make_wheel(b.wheels, "torch", "2.14.0", torch("12.9"))),
        "torch 2.14.0 is for CUDA 12.9, the profile wants CUDA 13",
    ),
    "vllm for CUDA 12": (
        lambda b: b.replace(
            "vllm", make_wheel(b.wheels, "vllm", "0.33.0", vllm("libcudart.so.12"))
        ),
        "vllm/_C.abi3.so: is linked with libcudart.so.12, not libcudart.so.13; take the vllm "
        "wheel of that CUDA",
    ),
    "vllm without CUDA": (
        lambda b: b.replace("vllm", make_wheel(b.wheels, "vllm", "0.33.0", vllm("libc.so.6"))),
        "is not linked with libcudart; take the vllm wheel of CUDA 13",
    ),
    "vllm without its compiled part": (
        lambda b: b.replace(
            "vllm", make_wheel(b.wheels, "vllm", "0.33.0", {"vllm/__init__.py": ""})
        ),
        "vllm/_C*.so: is not there; this vllm has no compiled part for this machine",
    ),
    "a cut library": (
        lambda b: b.replace(
            "vllm",
            make_wheel(b.wheels, "vllm", "0.33.0", {"vllm/_C.abi3.so": shared_library("a")[:80]}),
        ),
        "cannot be read as a shared library",
    ),
    "unequal flashinfer": (
        lambda b: b.replace(
            "flashinfer_cubin", make_wheel(b.wheels, "flashinfer-cubin", "0.7.1", {"x.py": ""})
        ),
        "flashinfer-python 0.7.2, flashinfer-cubin 0.7.1, flashinfer-jit-cache 0.7.2+cu130; all "
        "must have one version",
    ),
    "no jit cache": (
        lambda b: b.replace("flashinfer_jit_cache", None),
        "flashinfer-jit-cache absent; all must have one version",
    ),
    "no cutlass": (
        lambda b: b.replace("nvidia_cutlass_dsl", None),
        "import cutlass: ModuleNotFoundError: No module named 'cutlass'; its wheels do not fit",
    ),
    "cutlass that does not load": (
        lambda b: b.replace(
            "nvidia_cutlass_dsl",
            make_wheel(
                b.wheels,
                "nvidia-cutlass-dsl",
                "4.8.0",
                {"cutlass/__init__.py": "import cuda_bindings_of_another_version\n"},
            ),
        ),
        "import cutlass: ModuleNotFoundError: No module named 'cuda_bindings_of_another_version'",
    ),
    "an open set": (
        lambda b: b.replace("nvidia_cutlass_dsl", None),
        "uv pip check: The package `vllm` requires `nvidia-cutlass-dsl`, but it's not installed",
    ),
    "no vllm": (
        lambda b: b.replace("vllm", None),
        "no distribution named vllm; the wheel set lacks it",
    ),
}


@pytest.mark.parametrize("what", BREAK)
def test_a_failing_check_leaves_what_was_there(bench: Bench, what: str) -> None:
    old, link = bench.dest.with_name("stock-0ld"), bench.dest.with_name("stock")
    old.mkdir(parents=True)
    (old / ".stamp").write_text("0ld")
    link.symlink_to("stock-0ld")
    change, message = BREAK[what]
    change(bench)
    status, phase, said = bench.make()
    assert (status, phase) == (1, "failed")
    assert message in said
    assert not bench.dest.exists()
    assert (str(link.readlink()), (old / ".stamp").read_text()) == ("stock-0ld", "0ld")
    assert bench.make(requirements=bench.requirements)[0] == 1  # and again, from the start


def test_every_failing_check_is_named_at_once(bench: Bench) -> None:
    bench.replace("torch", make_wheel(bench.wheels, "torch", "2.14.0", torch("12.9")))
    bench.replace("nvidia_cutlass_dsl", None)
    said = bench.make()[2]
    assert said.count(" | ") == 2
    assert "CUDA 12.9" in said


def test_a_profile_says_what_is_checked(bench: Bench) -> None:
    bench.set = [
        make_wheel(bench.wheels, "torch", "2.14.0+cpu", torch(None, "2.14.0+cpu")),
        make_wheel(bench.wheels, "vllm", "0.33.0", vllm("libc.so.6"), ["torchvision"]),
    ]
    cpu = Checks(cuda=None, imports=("torch",), equal=(), missing_ok=("TorchVision",))
    bench.checks = as_data(cpu)
    assert bench.make()[:2] == (0, "done")
    bench.checks = as_data(Checks(cuda=None, imports=(), equal=()))
    assert "requires `torchvision`, but it's not installed" in bench.make()[2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("vllm==0.33.0 --hash=sha256:" + "0" * 64, "sha256:" + "0" * 64),
        ("vllm==0.33.0", "--require-hashes"),
        ("vllm==9.9 --hash=sha256:" + "0" * 64, "the file is gone upstream (a moving tag?)"),
    ],
)
def test_only_the_files_of_the_lock_are_installed(bench: Bench, line: str, message: str) -> None:
    bench.replace("vllm", None)
    status, phase, said = bench.make(requirements=f"{bench.requirements}{line}\n")
    assert (status, phase) == (1, "failed")
    assert message in said
    assert "uv pip install: " in said
    assert not bench.dest.exists()


def test_a_cut_installation_starts_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as cut:
        cut.setattr(MAKE, "patch", _power_cut)
        with pytest.raises(KeyboardInterrupt):
            bench.make()
    assert not bench.dest.exists()
    assert bench.dest.with_name("stock-d1gest.new").exists()
    assert bench.make()[0] == 0
    assert not bench.dest.with_name("stock-d1gest.new").exists()


def _power_cut(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_cache_of_a_cut_download_stays(bench: Bench) -> None:
    bad = "nothing==1 --hash=sha256:" + "0" * 64
    assert bench.make(requirements=f"{bench.requirements}{bad}\n")[0] == 1
    assert bench.dest.with_name(".cache-stock").is_dir()


def test_a_wheel_may_come_from_its_own_address(bench: Bench) -> None:
    wheel = next(path for path in bench.set if path.name.startswith("vllm-"))
    bench.replace("vllm", None)
    digest = line_of(wheel).split("--hash=")[1]
    elsewhere = bench.root / "elsewhere" / wheel.name
    elsewhere.parent.mkdir()
    shutil.move(wheel, elsewhere)
    line = f"vllm @ file://{elsewhere} --hash={digest}\n"
    assert bench.make(requirements=bench.requirements + line)[0] == 0
    wrong = f"vllm @ file://{elsewhere} --hash=sha256:{'0' * 64}\n"
    assert "Hash mismatch" in bench.make(requirements=bench.requirements + wrong)[2]


# --- the machine's Python and index -----------------------------------------------------------


def test_another_python_is_never_fetched(bench: Bench) -> None:
    said = bench.make(python="3.99")[2]
    assert said == (
        "python3.99: is not on this machine, and the profile's wheels are for it; install it: "
        "apt-get install python3.99 python3.99-dev"
    )


def test_missing_headers_are_named(bench: Bench) -> None:
    (bench.root / "Python.h").unlink()
    assert bench.make()[2] == (
        f"{bench.root}/Python.h: is not there; apt-get install python{MINOR}-dev"
    )


def test_pips_index_is_told_to_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\ncat <<'X'\nglobal.index-url='http://mirror/simple'\n"
        "global.extra-index-url='http://a/x http://b/x'\nglobal.trusted-host='mirror'\n"
        "install.find-links='/wheels'\nglobal.timeout='60'\n:env:.cert='/x'\nX\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr(INSTALL, "UV_CONFIG", tmp_path / "uv.toml")
    assert INSTALL.index_words(tmp_path / "uv") == [
        "--default-index", "http://mirror/simple", "--index", "http://a/x", "--index",
        "http://b/x", "--allow-insecure-host", "mirror", "--find-links", "/wheels",
    ]  # fmt: skip
    (tmp_path / "uv.toml").touch()
    assert INSTALL.index_words(tmp_path / "uv") == []


def test_needed_libraries_of_a_real_one() -> None:
    """The same names as the dynamic linker sees: libc is in every one of Python's modules."""
    found = CHECKS.needed(Path(_a_real_library()))
    assert any(name.startswith("libc.so") for name in found), found


def _a_real_library() -> str:
    words = Path("/proc/self/maps").read_text().split()
    return next(word for word in words if word.startswith("/") and ".so" in Path(word).suffixes)
