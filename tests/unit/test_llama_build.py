"""llama.cpp: which build a machine should have, and the program that builds it."""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkwright.jobs import describe, start_commands
from sparkwright.llama_build import inputs_of, plan, probes, wrong_files
from sparkwright.llama_flags import Source, Wanted, cmake_flags, newest_nvcc, nvcc_probe
from sparkwright.resources import State
from tests.unit.machine_case import COMMIT, HASH, program

program("introspect_llama")  # a sibling that the builder imports
BUILDER = program("build_llama")
PROBE = program("probe")
ROOT = "/opt/sparkwright/llama.cpp"
WANTED = Wanted(
    source=Source("http://x/b1.tar.gz", HASH, 7, COMMIT, 11312),
    prefix="/opt/sparkwright",
    work_dir="/srv/sparkwright/build",
    user="llm",
    backend="cuda",
    architectures="121",
    extra=("-DX=1",),
    env={"CCACHE_DIR": "/c"},
    jobs=3,
    keep=2,
)


def machine(
    builds: tuple[str, ...] = (),
    current: str | None = None,
    nvcc: str = "/usr/local/cuda/bin/nvcc 13.0.88",
    compiler: str = "c++ (Ubuntu 13.3.0) 13.3.0\nCopyright\n",
    arch: str = "aarch64",
    wrong: tuple[str, ...] = (),
    unread: tuple[str, ...] = (),
    alike: str = "ubuntu 24.04\nFeatures : fp asimd\n",
) -> list[State]:
    """Answers to `probes`; builds are newest first."""
    lines = [{"wrong": [w]} for w in wrong] + [{"wrong": [], "unread": [u]} for u in unread]
    checked = "".join(json.dumps(line) + "\n" for line in lines)
    return [
        {"rc": 0, "out": f"{nvcc}\n"},
        {"rc": 0, "out": compiler},
        {"type": "link", "target": current} if current else {"type": "missing"},
        {"rc": 0, "out": f"{arch}\n"},
        {"paths": [f"{ROOT}/{name}/.stamp" for name in builds]},
        {"rc": 0, "out": checked},
        {"rc": 0, "out": alike},
    ]


def name_of(wanted: Wanted = WANTED, **answers: Any) -> str:
    """The digest of the wanted build on such a machine."""
    job = plan(wanted, machine(**answers)).job
    assert job is not None
    return job.digest


NAME = name_of()


def test_a_new_machine_fetches_builds_and_switches() -> None:
    found = plan(WANTED, machine())
    assert found.drift == (
        f"{ROOT}/{NAME}: no build of these inputs",
        f"{ROOT}/current: points to nothing, not {NAME}",
    )
    assert found.job is not None
    assert found.job.stamp == f"{ROOT}/{NAME}/.stamp"
    assert found.job.spec["dest"] == f"{ROOT}/{NAME}"
    assert found.job.spec["commit"] == COMMIT
    assert found.job.spec["env"] == {"CCACHE_DIR": "/c"}
    assert "PrivateNetwork=yes" in found.job.properties
    fetch = found.before[1].shell
    assert f"/opt/sparkwright/src/llama.cpp-{COMMIT}.tar.gz --sha256 {HASH} --size 7" in fetch
    assert f"ln -sfn {NAME} {ROOT}/.current && mv -fT" in found.after[0].shell


def test_a_finished_machine_needs_nothing() -> None:
    found = plan(WANTED, machine((NAME, "older"), NAME))
    assert found == type(found)()


CHANGES: dict[str, tuple[Wanted, dict[str, Any]]] = {
    "flag": (dataclasses.replace(WANTED, extra=("-DX=2",)), {}),
    "no flag": (dataclasses.replace(WANTED, extra=()), {}),
    "backend": (dataclasses.replace(WANTED, backend="cpu"), {}),
    "architecture": (dataclasses.replace(WANTED, architectures="120"), {}),
    "commit": (
        dataclasses.replace(WANTED, source=dataclasses.replace(WANTED.source, commit="f" * 40)),
        {},
    ),
    "archive": (
        dataclasses.replace(WANTED, source=dataclasses.replace(WANTED.source, sha256="0" * 64)),
        {},
    ),
    "build number": (
        dataclasses.replace(WANTED, source=dataclasses.replace(WANTED.source, build_number=1)),
        {},
    ),
    "nvcc version": (WANTED, {"nvcc": "/usr/local/cuda/bin/nvcc 13.1.80"}),
    "nvcc path": (WANTED, {"nvcc": "/usr/local/cuda-13.0/bin/nvcc 13.0.88"}),
    "compiler": (WANTED, {"compiler": "c++ 14\n"}),
    "arch": (WANTED, {"arch": "x86_64"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_each_changed_input_builds_anew(what: str) -> None:
    wanted, answers = CHANGES[what]
    found = plan(wanted, machine((NAME,), NAME, **answers))
    assert found.job is not None
    assert found.job.digest != NAME
    assert found.before


@pytest.mark.parametrize("change", [{"jobs": 9}, {"keep": 5}, {"env": {}}, {"work_dir": "/x"}])
def test_what_does_not_change_the_result_builds_nothing(change: dict[str, Any]) -> None:
    found = plan(dataclasses.replace(WANTED, **change), machine((NAME,), NAME))
    assert found.drift == ()


def test_a_cpu_build_does_not_depend_on_nvcc() -> None:
    cpu = dataclasses.replace(WANTED, backend="cpu")
    assert name_of(cpu) == name_of(cpu, nvcc="")
    assert not any("CUDA_COMPILER" in flag for flag in cmake_flags(cpu, "/nvcc"))
    assert "-DGGML_CUDA=OFF" in cmake_flags(cpu, "")


def test_a_cuda_build_names_its_compiler_absolutely() -> None:
    inputs = inputs_of(WANTED, machine())
    assert "-DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc" in list(inputs["cmake"])  # type: ignore[call-overload]
    flags = cmake_flags(WANTED, "/n")
    assert flags[3:5] == ["-DGGML_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=121"]
    assert flags[-1] == "-DX=1"  # last, so that it wins
    for offline in ("-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF"):
        assert offline in flags


def test_an_older_finished_build_is_only_switched_to() -> None:
    found = plan(WANTED, machine(("other", NAME), "other"))
    assert found.drift == (f"{ROOT}/current: points to other, not {NAME}",)
    assert found.job is None
    assert found.before == ()
    assert len(found.after) == 2


@pytest.mark.parametrize("linked", [True, False])
def test_a_damaged_build_is_built_again(linked: bool) -> None:
    wrong = (f"{ROOT}/{NAME}/bin/llama-server: changed", f"{ROOT}/other/bin/x: changed")
    found = plan(WANTED, machine((NAME,), NAME if linked else "other", wrong=wrong))
    assert found.drift[0] == f"{ROOT}/{NAME}/bin/llama-server: changed"
    assert len(found.drift) == (1 if linked else 2)
    assert found.job is not None


def test_damage_of_another_build_is_nobodys_business() -> None:
    other = (f"{ROOT}/{NAME}0/bin/x: changed",)
    assert plan(WANTED, machine((NAME,), NAME, wrong=other)).drift == ()


def test_a_build_without_its_facts_is_asked_again_and_not_compiled() -> None:
    facts = (f"{ROOT}/{NAME}/.introspect.json", f"{ROOT}/other/.introspect.json")
    found = plan(WANTED, machine((NAME,), NAME, unread=facts))
    assert found.drift == (f"{facts[0]}: missing or broken",)
    assert found.job is None
    binary = f"{ROOT}/{NAME}/bin/llama-server"
    assert found.after[0].shell.endswith(f"introspect_llama.py {binary} {facts[0]}")
    assert plan(WANTED, machine((NAME,), NAME, unread=facts[1:])).drift == ()


def test_a_damaged_build_is_not_asked_what_it_knows() -> None:
    wrong = (f"{ROOT}/{NAME}/bin/llama-server: changed",)
    found = plan(
        WANTED, machine((NAME,), NAME, wrong=wrong, unread=(f"{ROOT}/{NAME}/.introspect.json",))
    )
    assert found.drift == wrong
    assert not any("introspect" in command.shell for command in found.after)


def test_answers_that_failed_mean_that_nothing_is_there() -> None:
    found = plan(WANTED, [{"error": "OSError"}] * 7)
    assert found.job is not None
    assert inputs_of(WANTED, [{"error": "x"}] * 6)["compiler"] == "absent"


def test_lines_that_are_no_answer_are_passed_over() -> None:
    assert wrong_files({"out": 'Traceback\n{"wrong": ["/a: changed"]}\n'}) == ["/a: changed"]
    assert wrong_files({}) == []


@pytest.mark.parametrize(
    ("out", "found"),
    [
        ("", ("", "")),
        ("/a/nvcc 13.0.88\n", ("/a/nvcc", "13.0.88")),
        ("/a/nvcc 13.9.1\n/b/nvcc 13.10.0\n", ("/b/nvcc", "13.10.0")),
        ("/a/nvcc 12.8.93\n/b/nvcc 13.0.88\n", ("/b/nvcc", "13.0.88")),
        ("/a/nvcc \n/b/nvcc 13.0.88\n", ("/b/nvcc", "13.0.88")),
        ("/same/nvcc 13.0.88\n/other/nvcc 13.0.88\n", ("/same/nvcc", "13.0.88")),
    ],
)
def test_newest_nvcc(out: str, found: tuple[str, str]) -> None:
    assert newest_nvcc({"out": out}) == found


def test_nvcc_is_found_in_cuda_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin/nvcc"
    fake.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 99.1, V99.1.23'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert newest_nvcc(PROBE.answer(nvcc_probe())) == (str(fake), "99.1.23")


# --- pruning ---------------------------------------------------------------------------------


def pruned(root: Path, current: str, builds: list[str], keep: int) -> list[str]:
    """Names that are left after the plan's own command ran; builds are newest first."""
    wanted = dataclasses.replace(WANTED, prefix=str(root), keep=keep)
    place = root / "llama.cpp"
    states = machine(tuple(builds), current)
    states[4] = {"paths": [f"{place}/{name}/.stamp" for name in [*builds, "current"]]}
    name = name_of(wanted)
    names = [name if build == "NOW" else build for build in builds]
    states[4] = {"paths": [f"{place}/{build}/.stamp" for build in [*names, "current"]]}
    for build in names:
        (place / build).mkdir(parents=True)
        (place / build / ".stamp").write_text(build)
    (place / "current").symlink_to(name)
    states[2] = {"type": "link", "target": "old"}
    command = plan(wanted, states).after[-1]
    subprocess.run(["sh", "-c", command.shell], check=True)
    left = sorted(path.name for path in place.iterdir() if not path.is_symlink())
    return ["NOW" if build == name else build for build in left]


@pytest.mark.parametrize(
    ("builds", "keep", "left"),
    [
        (["NOW"], 2, ["NOW"]),
        (["NOW", "b", "c", "d"], 2, ["NOW", "b"]),
        (["b", "c", "d", "NOW"], 2, ["NOW", "b"]),  # the current one is the oldest
        (["b", "NOW", "c"], 1, ["NOW"]),
        (["b", "NOW", "c"], 0, ["NOW"]),
        (["NOW", "b", "c"], 9, ["NOW", "b", "c"]),
    ],
)
def test_prune_keeps_the_newest_and_always_the_current(
    tmp_path: Path, builds: list[str], keep: int, left: list[str]
) -> None:
    assert pruned(tmp_path / "a prefix", "x", builds, keep) == sorted(left)


def test_prune_removes_what_interrupted_builds_left(tmp_path: Path) -> None:
    place = tmp_path / "llama.cpp"
    for name in ("half", "other.new"):
        (place / name / "bin").mkdir(parents=True)
    assert pruned(tmp_path, "x", ["NOW", "b"], 2) == ["NOW", "b"]


def test_prune_keeps_a_build_that_a_process_runs(tmp_path: Path) -> None:
    place = tmp_path / "llama.cpp/inuse/bin"
    place.mkdir(parents=True)
    shutil.copy2(shutil.which("sleep") or "", place / "llama-server")
    running = subprocess.Popen([place / "llama-server", "60"])
    try:
        wanted = dataclasses.replace(WANTED, prefix=str(tmp_path), keep=1)
        states = machine()
        states[4] = {"paths": [f"{tmp_path}/llama.cpp/{n}/.stamp" for n in ("inuse", "in", "free")]}
        for name in ("in", "free"):
            (tmp_path / "llama.cpp" / name).mkdir()
        subprocess.run(["sh", "-c", plan(wanted, states).after[-1].shell], check=True)
        assert [path.name for path in (tmp_path / "llama.cpp").iterdir()] == ["inuse"]
    finally:
        running.kill()
        running.wait()


def test_switching_is_one_rename(tmp_path: Path) -> None:
    wanted = dataclasses.replace(WANTED, prefix=str(tmp_path))
    (tmp_path / "llama.cpp/old").mkdir(parents=True)
    (tmp_path / "llama.cpp/current").symlink_to("old")
    for _ in range(2):  # a second time changes nothing and makes no link inside the old target
        subprocess.run(["sh", "-c", plan(wanted, machine()).after[0].shell], check=True)
        assert str((tmp_path / "llama.cpp/current").readlink()) == name_of(wanted)
        assert list((tmp_path / "llama.cpp/old").iterdir()) == []


def test_the_job_starts_as_root_and_its_program_gets_the_user() -> None:
    job = plan(WANTED, machine()).job
    assert job is not None
    assert job.user == "root"
    assert job.spec["user"] == "llm"
    assert "--property=PrivateNetwork=yes" in start_commands(job)[-1].shell


def test_probes_ask_for_every_build() -> None:
    assert probes(WANTED)[4] == {"kind": "listing", "pattern": f"{ROOT}/*/.stamp"}


# --- files/opt/sparkwright/lib/build_llama.py --------------------------------------------------

FAKE_CMAKE = """#!{python}
import os, pathlib, sys, json
words = sys.argv[1:]
log = pathlib.Path({log!r})
log.write_text(log.read_text() + json.dumps(words) + "\\n")
mode = os.environ.get("FAKE_MODE", "good")
if words[0] == "-S":
    sys.exit(1 if mode == "configure-fails" else 0)
out = pathlib.Path(words[1]) / "bin"
out.mkdir(parents=True)
print("[1/2] Building C object a.o")
print("[2/2] Linking llama-server", flush=True)
if mode == "compile-fails":
    sys.exit(2)
for name in words[words.index("--target") + 1:]:
    if mode == "no-program":
        continue
    shown = "ffffffffff" if mode == "wrong-version" else {commit!r}[:9]
    end = 1 if mode == "crashes" else 0
    text = "#!/bin/sh\\necho 'version: 1 (" + shown + ")' >&2\\n"
    if mode != "no-help":
        text += "[ $1 = --version ] || echo '--port PORT" + " " * 29 + "port to listen'\\n"
    (out / name).write_text(text + "exit %d\\n" % end)
    (out / name).chmod(0o755)
(out / "libllama.so.1").write_text("library")
(out / "libllama.so").symlink_to("libllama.so.1")
(out / "llama-cli").write_text("not asked for")
"""


class Bench:
    """A source archive, a fake cmake on PATH, and the real program in this process."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.monkeypatch = root, monkeypatch
        self.tools = root / "fake_tools"
        self.tools.mkdir()
        self.log = root / "cmake.log"
        self.log.touch()
        cmake = self.tools / "cmake"
        cmake.write_text(FAKE_CMAKE.format(python=sys.executable, log=str(self.log), commit=COMMIT))
        cmake.chmod(0o755)
        self.archive({"llama.cpp/CMakeLists.txt": "top", "llama.cpp/ggml/CMakeLists.txt": "sub"})
        self.dest = root / "llama.cpp" / "d1gest"
        self.dest.parent.mkdir()
        self.popen: list[dict[str, Any]] = []
        self._drop_privileges_once(monkeypatch)

    def _drop_privileges_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Giving files and processes to another account needs root: note it, do the rest."""

        def bare(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(argv: Any, **options: Any) -> Any:
                asked = {k: options.pop(k, None) for k in ("user", "group", "extra_groups")}
                self.popen.append({"argv": [str(word) for word in argv], **asked})
                return real(argv, **options)

            return call

        monkeypatch.setattr(BUILDER.subprocess, "Popen", bare(subprocess.Popen))
        monkeypatch.setattr(BUILDER.os, "chown", lambda *_, **__: None)
        monkeypatch.setattr(BUILDER.shutil, "chown", lambda *_, **__: None)

    def archive(self, files: dict[str, str]) -> None:
        with tarfile.open(self.root / "source.tar.gz", "w:gz") as tar:
            for name, text in files.items():
                path = self.root / "member"
                path.write_text(text)
                tar.add(path, name)

    def build(self, mode: str = "good") -> tuple[int, dict[str, Any]]:
        """(exit status, progress)"""
        spec = {
            "archive": f"{self.root}/source.tar.gz",
            "commit": COMMIT,
            "cmake": ["-G", "Ninja"],
            "targets": ["llama-server", "llama-bench"],
            "jobs": 0,
            "env": {"PATH": f"{self.tools}:{os.environ['PATH']}", "FAKE_MODE": mode},
            "user": pwd.getpwuid(os.getuid()).pw_name,
            "work": f"{self.root}/work",
            "dest": str(self.dest),
            "inputs": {"commit": COMMIT},
            "digest": self.dest.name,
            "stamp": f"{self.dest}/.stamp",
            "progress": f"{self.root}/progress",
        }
        (self.root / "spec.json").write_text(json.dumps(spec))
        status = BUILDER.main([f"{self.root}/spec.json"])
        return status, json.loads((self.root / "progress").read_text())

    def check(self, capsys: pytest.CaptureFixture[str]) -> list[str]:
        capsys.readouterr()
        assert BUILDER.main(["check", str(self.dest)]) == 0
        found: list[str] = json.loads(capsys.readouterr().out)["wrong"]
        return found


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_build_is_installed_checked_and_stamped(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    status, progress = bench.build()
    assert (status, progress["phase"]) == (0, "done")
    names = sorted(path.name for path in (bench.dest / "bin").iterdir())
    assert names == ["libllama.so", "libllama.so.1", "llama-bench", "llama-server"]
    assert (bench.dest / "bin/libllama.so").is_symlink()
    assert (bench.dest / ".stamp").read_text() == "d1gest"
    assert json.loads((bench.dest / "BUILD.json").read_text()) == {"commit": COMMIT}
    assert not (bench.root / "work").exists()
    assert [path.name for path in bench.dest.parent.iterdir()] == ["d1gest"]
    assert bench.check(capsys) == []
    known = json.loads((bench.dest / ".introspect.json").read_text())
    assert known["flags"] == {"port": {"choices": None, "value": True}}
    assert known["version"] == f"1 ({COMMIT[:9]})"


def test_a_program_that_shows_no_options_is_not_installed(bench: Bench) -> None:
    status, progress = bench.build("no-help")
    assert (status, progress["phase"]) == (1, "failed")
    assert "llama-server --help: shows no --port" in progress["message"]
    assert not bench.dest.exists()


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_check_names_a_build_whose_facts_are_no_facts(
    bench: Bench, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    bench.build()
    facts = bench.dest / ".introspect.json"
    facts.unlink() if text is None else facts.write_text(text)
    capsys.readouterr()
    BUILDER.main(["check", str(bench.dest)])
    assert json.loads(capsys.readouterr().out) == {"wrong": [], "unread": [str(facts)]}


def test_cmake_and_compiler_run_as_the_service_user(bench: Bench) -> None:
    bench.build()
    me = pwd.getpwuid(os.getuid()).pw_name
    words = [json.loads(line) for line in bench.log.read_text().splitlines()]
    assert words[0][:2] == ["-S", str(Path(bench.root, "work", "source", "llama.cpp"))]
    assert words[0][-2:] == ["-G", "Ninja"]
    assert words[1][-3:] == ["--target", "llama-server", "llama-bench"]
    tools = [call for call in bench.popen if call["argv"][0] == "cmake"]
    assert len(tools) == 2
    for call in tools:
        assert (call["user"], call["group"], call["extra_groups"]) == (me, me, [])


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("configure-fails", "cmake ended with status 1"),
        ("compile-fails", "cmake ended with status 2"),
        ("no-program", "llama-server was not built although cmake reported success"),
        ("wrong-version", f"llama-server --version does not show {COMMIT[:9]}: "
         "'version: 1 (ffffffffff)\\n'"),
        ("crashes", f"llama-server --version does not show {COMMIT[:9]}: "
         f"'version: 1 ({COMMIT[:9]})\\n'"),
    ],
)  # fmt: skip
def test_a_failing_build_leaves_no_stamp_and_the_old_build_whole(
    bench: Bench, mode: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = bench.dest.parent / "other"
    other.mkdir()
    (other / ".stamp").write_text("other")
    status, progress = bench.build(mode)
    assert (status, progress) == (1, {"phase": "failed", "message": message})
    assert f"build: {message}" in capsys.readouterr().err
    assert [path.name for path in bench.dest.parent.iterdir()] == ["other"]


def test_an_archive_without_source_is_refused(bench: Bench) -> None:
    bench.archive({"README": "a login page"})
    status, progress = bench.build()
    assert status == 1
    assert progress["message"] == (
        f"{bench.root}/source.tar.gz: no CMakeLists.txt in it; is it llama.cpp's source?"
    )


@pytest.mark.parametrize("name", ["../escape", "/tmp/absolute-escape"])
def test_an_archive_cannot_write_outside(bench: Bench, name: str) -> None:
    bench.archive({"llama.cpp/CMakeLists.txt": "top", name: "evil"})
    bench.build()
    assert not (bench.root / "work/escape").exists()
    assert not (bench.root / "escape").exists()
    assert not Path("/tmp/absolute-escape").exists()


def test_a_damaged_archive_is_one_line(bench: Bench) -> None:
    (bench.root / "source.tar.gz").write_bytes(b"not an archive")
    status, progress = bench.build()
    assert (status, progress["phase"]) == (1, "failed")
    assert not bench.dest.exists()


def test_check_finds_every_kind_of_damage(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.build()
    server, library = bench.dest / "bin/llama-server", bench.dest / "bin/libllama.so.1"
    kept = server.read_bytes()
    server.unlink()
    assert bench.check(capsys) == [f"{server}: missing"]
    server.write_bytes(kept)  # equal content, another file: not what was installed
    assert bench.check(capsys) == [f"{server}: changed"]
    library.unlink()
    added = bench.dest / "bin/libextra.so"
    added.touch()
    # The link is followed by none: its target's absence shows at both.
    assert bench.check(capsys) == [
        f"{bench.dest}/bin/libextra.so: changed",
        f"{bench.dest}/bin/libllama.so: missing",
        f"{library}: missing",
        f"{server}: changed",
    ]


@pytest.mark.parametrize("damage", ["no stamp", "other stamp", "no record", "broken record"])
def test_check_trusts_no_build_without_its_stamp_and_record(
    bench: Bench, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    bench.build()
    stamp, record = bench.dest / ".stamp", bench.dest / BUILDER.RECORD
    match damage:
        case "no stamp":
            stamp.unlink()
        case "other stamp":
            stamp.write_text("another")
        case "no record":
            record.unlink()
        case "broken record":
            record.write_text("{")
    assert bench.check(capsys) == [f"{stamp}: does not vouch for this build"]


def test_a_second_build_replaces_a_damaged_one(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.build()
    (bench.dest / "bin/llama-server").unlink()
    (bench.dest / "bin/leftover.so").touch()
    assert bench.build()[0] == 0
    assert bench.check(capsys) == []
    assert not (bench.dest / "bin/leftover.so").exists()


def test_steps_become_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = BUILDER.Progress(str(tmp_path / "p"))
    progress.say("compiling", "step 1 of 2, 50 %")
    progress.say("compiling", "too soon", force=False)
    assert json.loads((tmp_path / "p").read_text()) == {
        "phase": "compiling",
        "message": "step 1 of 2, 50 %",
    }
    monkeypatch.setattr(BUILDER.time, "monotonic", lambda: 160.0)
    progress.last = 0.0
    progress.step("compiling", 30, 120, 100.0)  # 30 steps in a minute
    said = json.loads((tmp_path / "p").read_text())
    assert describe(said) == "compiling, 180 s left, step 30 of 120, 25 %, 30 a minute"
    assert BUILDER.STEP.match("[12/240] Building CUDA object x.cu.o")[1] == "12"


def test_root_owns_what_is_installed(bench: Bench) -> None:
    """Whoever runs the tests, everything installed is given to root."""
    given: list[tuple[str, int, int]] = []
    bench.monkeypatch.setattr(
        BUILDER.os, "chown", lambda path, uid, gid, **_: given.append((str(path), uid, gid))
    )
    bench.build()
    names = {Path(path).name for path, uid, gid in given if (uid, gid) == (0, 0)}
    assert {"llama-server", "libllama.so", "bin", "d1gest.new"} <= names


def item_of(**answers: Any) -> str:
    item = plan(WANTED, machine(**answers)).item
    assert item is not None
    return item.key


def test_machines_of_one_kind_share_a_build_and_odd_ones_do_not() -> None:
    """A build of one machine is another's only where compiler, system and processor are equal."""
    assert item_of() == item_of(builds=(NAME,), current=NAME)
    odd: list[dict[str, Any]] = [
        {"compiler": "c++ (Ubuntu 14.1.0) 14.1.0\n"},
        {"arch": "x86_64"},
        {"nvcc": "/usr/local/cuda/bin/nvcc 13.1.0"},
        {"alike": "ubuntu 26.04\nFeatures : fp asimd\n"},
        {"alike": "ubuntu 24.04\nFeatures : fp asimd sve\n"},
    ]
    assert len({item_of(), *[item_of(**answers) for answers in odd]}) == 1 + len(odd)
