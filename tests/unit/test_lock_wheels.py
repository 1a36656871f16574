"""`sparkwright lock` and wheels: sets by the real uv, indexes and moving releases on loopback."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkwright import cli_lock
from sparkwright.artifacts import Artifact, load_lock
from sparkwright.errors import SparkwrightError
from sparkwright.lock_text import dump
from sparkwright.lock_wheels import locked_text
from sparkwright.paths import PROJECT
from sparkwright.vllm_profiles import names, profile_of
from sparkwright.wheel_index import WheelFile, best, wheels_on
from sparkwright.wheel_sets import Chosen, compile_set, inputs_of, render, wheels_of
from tests.unit.machine_case import HASH
from tests.unit.test_lock import serve
from tests.unit.wheel_maker import make_wheel

REQUIREMENTS = PROJECT / "files/opt/sparkwright/requirements"
VLLM = "0.23.1rc1.dev701+g00eb7cefa.d20260701"
NEWER = "0.23.1rc1.dev702+g11eb7cefa.d20260702"
TAGS = {"vllm": "prebuilt-vllm-current", "flashinfer": "prebuilt-flashinfer-current"}
SET = """
[project]
name = "vllm-eugr"
version = "0"
requires-python = "==3.12.*"
dependencies = ["torch==2.13.0", "ray[default]"]
[tool.uv]
override-dependencies = ["fastapi<2"]
[[tool.uv.index]]
name = "cu130"
url = "@/cu130/simple"
explicit = true
[tool.uv.sources]
torch = { index = "cu130" }
[tool.sparkwright]
held = ["torch"]
wheels = ["eugr-vllm", "eugr-flashinfer-python"]
"""


class Upstream:
    """A package index, PyTorch's index, and a project's releases, as folders of one server."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""

    def add(self, index: str, name: str, version: str, **options: Any) -> Path:
        """Put a wheel on an index."""
        place = self.folder / index / "simple" / name
        requires = options.pop("requires", ())
        files = {f"{name}.py": f"{version!r}"}
        wheel = make_wheel(place, name, version, files, requires, **options)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        page = place / "index.html"
        old = page.read_text() if page.exists() else ""
        link = wheel.name.replace("+", "%2B")
        page.write_text(f'{old}<a href="{link}#sha256={digest}">{wheel.name}</a>\n')
        return wheel

    def release(self, tag: str, *wheels: tuple[str, str, tuple[str, ...]]) -> None:
        """What a moving tag holds from now on: its page of files and the files."""
        top = self.folder / "eugr/spark/releases"
        shutil.rmtree(top / "download" / tag, ignore_errors=True)
        lines = ['<a href="/eugr/spark/archive/refs/tags/x.zip">Source code</a>']
        for name, version, requires in wheels:
            arch = "cp312-cp312-linux_aarch64"
            wheel = make_wheel(
                top / "download" / tag, name, version, {f"{name}.py": ""}, requires, tag=arch
            )
            plain = wheel.name.replace("+", "%2B")
            lines.append(f'<a href="/eugr/spark/releases/download/{tag}/{plain}">{plain}</a>')
        (top / "expanded_assets").mkdir(parents=True, exist_ok=True)
        (top / "expanded_assets" / tag).write_text("<ul>\n" + "\n".join(lines))

    def nightly(self, version: str, flashinfer: str = "0.6.14") -> None:
        """Both tags of one night."""
        wants = ("torch==9.9", "fastapi", f"flashinfer-python=={flashinfer}")
        self.release(TAGS["vllm"], ("vllm", version, wants))
        self.release(TAGS["flashinfer"], ("flashinfer-python", flashinfer, ()))


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    found = Upstream(tmp_path / "upstream")
    found.folder.mkdir()
    for name, versions in {
        "fastapi": ("1.5", "2.0"),
        "ray": ("3.0",),
        "torch": ("2.13.0",),
    }.items():
        for version in versions:
            found.add("main", name, version)
    found.add("cu130", "torch", "2.13.0+cu130", requires=["nvidia-x"])
    for tag in ("cp312-cp312-manylinux_2_28_aarch64", "cp312-cp312-manylinux_2_28_x86_64"):
        found.add("main", "nvidia-x", "13.0", tag=tag)
    found.nightly(VLLM)
    with serve(found.folder) as url:
        found.url = url
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{url}/main/simple")
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        yield found


class Place:
    """A project folder with a lock."""

    def __init__(self, folder: Path, upstream: Upstream) -> None:
        self.lock = folder / "artifacts.lock.yaml"
        (folder / "recipes").mkdir(parents=True)
        (folder / "vllm-eugr.toml").write_text(SET.replace("@", upstream.url))
        releases = f"{upstream.url}/eugr/spark/releases"
        wheel = {"kind": "wheel", "releases": releases}
        self.write(
            {
                "vllm-eugr": {"kind": "wheels", "requirements": "vllm-eugr.txt"},
                "eugr-vllm": {**wheel, "project": "vllm", "tag": TAGS["vllm"]},
                "eugr-flashinfer-python": {
                    **wheel, "project": "flashinfer-python", "tag": TAGS["flashinfer"],
                },
            }
        )  # fmt: skip

    def write(self, artifacts: dict[str, Any]) -> None:
        value = {"format": 1, "hub": "http://h", "artifacts": artifacts, "snapshots": {}}
        self.lock.write_text(yaml.safe_dump(value))

    def run(self, *words: str) -> int:
        return cli_lock.main(["--file", str(self.lock), *words])

    def __getitem__(self, name: str) -> Artifact:
        return load_lock(self.lock).artifacts[name]


@pytest.fixture
def place(tmp_path: Path, upstream: Upstream) -> Place:
    return Place(tmp_path / "project", upstream)


# --- releases behind moving tags ------------------------------------------------------------------


def test_both_sets_are_recorded_and_the_rest_is_resolved(place: Place, upstream: Upstream) -> None:
    assert place.run() == 0
    vllm = place["eugr-vllm"]
    name = f"vllm-{VLLM}-cp312-cp312-linux_aarch64.whl"
    file = upstream.folder / "eugr/spark/releases/download" / TAGS["vllm"] / name
    assert vllm.version == VLLM
    assert (vllm.url or "").endswith(f"/{TAGS['vllm']}/{name.replace('+', '%2B')}")
    assert vllm.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert vllm.source == "tag prebuilt-vllm-current: commit 00eb7cefa, built 20260701"
    assert place["vllm-eugr"].version == VLLM
    lines = locked_text(load_lock(place.lock), place["vllm-eugr"]).splitlines()
    wanted = [line.split(" --hash=")[0] for line in lines if not line.startswith("#")]
    torch = "torch-2.13.0%2Bcu130-py3-none-any.whl"
    assert wanted == [
        "fastapi==1.5",
        "nvidia-x==13.0",
        "ray==3.0",
        f"torch @ {upstream.url}/cu130/simple/torch/{torch}",
    ]
    assert all(line.count("--hash=sha256:") == 1 for line in lines if not line.startswith("#"))
    assert place["vllm-eugr"].resolved


def test_a_second_run_asks_nothing_and_changes_nothing(
    place: Place, upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run() == 0
    before = place.lock.read_text()
    shutil.rmtree(upstream.folder)
    capsys.readouterr()
    assert place.run() == 0
    assert place.lock.read_text() == before
    assert capsys.readouterr().out == "artifacts.lock.yaml: nothing moved\n"


def test_a_moved_tag_is_named_and_not_followed(
    place: Place, upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run() == 0
    before = place.lock.read_text()
    upstream.nightly(NEWER)
    assert place.run("--update") == 1
    assert place.lock.read_text() == before
    old, new = (f"vllm-{v}-cp312-cp312-linux_aarch64.whl" for v in (VLLM, NEWER))
    assert capsys.readouterr().err == (
        f"artifacts/eugr-vllm: prebuilt-vllm-current has moved: {old} is gone, {new} is there; "
        "take the new set with: sparkwright lock --wheels eugr (what machines have stays, but no "
        "new machine can fetch the old files)\n"
    )


def test_the_new_set_is_taken_whole_when_asked_for(place: Place, upstream: Upstream) -> None:
    assert place.run() == 0
    upstream.nightly(NEWER, "0.6.15")
    assert place.run("--wheels", "eugr") == 0
    assert (place["eugr-vllm"].version, place["vllm-eugr"].version) == (NEWER, NEWER)
    assert place["eugr-flashinfer-python"].version == "0.6.15"


@pytest.mark.parametrize("fault", ["half a release", "two wheels", "parts that do not fit"])
def test_the_last_good_set_stays_when_the_new_one_is_not_whole(
    place: Place, upstream: Upstream, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run() == 0
    before = place.lock.read_text()
    text = (place.lock.parent / "vllm-eugr.txt").read_text()
    upstream.nightly(NEWER, "0.6.15")
    tag = TAGS["flashinfer"]
    if fault == "half a release":
        upstream.release(tag)
    elif fault == "two wheels":
        both = [("flashinfer-python", version, ()) for version in ("0.6.14", "0.6.15")]
        upstream.release(tag, *both)
    else:
        upstream.release(tag, ("flashinfer-python", "0.6.13", ()))
    assert place.run("--wheels", "eugr") == 1
    assert place.lock.read_text() == before
    assert (place.lock.parent / "vllm-eugr.txt").read_text() == text
    told = {
        "half a release": f"{tag} should hold one wheel of flashinfer-python, it holds: none; "
        "the release may be half uploaded, try again later",
        "two wheels": "it holds: flashinfer_python-0.6.14",
        "parts that do not fit": "vllm-eugr.toml: uv cannot resolve it: ",
    }
    assert told[fault] in capsys.readouterr().err


def test_a_tag_that_moves_meanwhile_is_not_taken(
    place: Place, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cli_lock.measure

    def moving(url: str, tell: Any) -> Any:
        found = real(url, tell)
        upstream.nightly(NEWER)
        return found

    monkeypatch.setattr(cli_lock, "measure", moving)
    assert place.run() == 1
    assert not place["eugr-vllm"].resolved


def test_an_unknown_profile_is_named(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("--wheels", "eugrr") == 1
    assert "--wheels: no wheel set named eugrr in the lock; did you mean eugr?" in (
        capsys.readouterr().err
    )


# --- single wheels of an index --------------------------------------------------------------------


def test_a_wheel_of_an_index_is_found_by_its_version(place: Place, upstream: Upstream) -> None:
    tags = ("cp39-abi3-manylinux_2_28_aarch64", "cp39-abi3-manylinux_2_28_x86_64")
    for version in ("0.7.1+cu130", "0.7.2+cu130"):
        for tag in tags:
            upstream.add("flash", "jit-cache", version, tag=tag)
    index = f"{upstream.url}/flash/simple"
    entry = {"kind": "wheel", "project": "jit-cache", "index": index, "version": "0.7.2+cu130"}
    place.write({"stock-jit": entry})
    assert place.run() == 0
    found = place["stock-jit"]
    assert found.resolved
    assert (found.url or "").endswith(
        "/jit_cache-0.7.2%2Bcu130-cp39-abi3-manylinux_2_28_aarch64.whl"
    )


def test_a_version_that_an_index_lacks_is_not_guessed(
    place: Place, upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.add("flash", "jit-cache", "0.7.1")
    index = f"{upstream.url}/flash/simple"
    place.write({"jit-cache": {"kind": "wheel", "index": index, "version": "0.7.2"}})
    assert place.run() == 1
    assert f"{index}/jit-cache/ has no wheel of jit-cache 0.7.2 for a Spark" in (
        capsys.readouterr().err
    )
    assert place["jit-cache"].url is None


def test_a_file_that_is_not_what_the_index_says_is_refused(
    place: Place, upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = upstream.add("flash", "jit-cache", "0.7.2")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    index = f"{upstream.url}/flash/simple"
    place.write({"jit-cache": {"kind": "wheel", "index": index, "version": "0.7.2"}})
    assert place.run() == 1
    assert "find out why before you change the lock" in capsys.readouterr().err


# --- the format -----------------------------------------------------------------------------------

CHECKS = (
    "checks: {cuda: null, python: '3.11', imports: [torch], equal: [], missing_ok: [torchcodec]}"
)


def lock_with(tmp_path: Path, artifact: str) -> Path:
    path = tmp_path / "lock.yaml"
    head = "format: 1\nhub: http://h\nsnapshots: {}\nartifacts:\n"
    path.write_text(f"{head}  vllm-x: {{{artifact}}}\n")
    return path


def test_checks_of_a_set_survive_the_file(tmp_path: Path) -> None:
    path = lock_with(tmp_path, f"kind: wheels, requirements: x.txt, sha256: '{HASH}', {CHECKS}")
    lock = load_lock(path)
    profile = profile_of("x", lock.artifacts["vllm-x"])
    assert (profile.python, profile.checks.cuda, profile.checks.equal) == ("3.11", None, ())
    assert profile.checks.missing_ok == ("torchcodec",)
    path.write_text(dump(lock))
    assert load_lock(path) == lock


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("checks: {cudaa: '13'}", "checks: unknown key cudaa; did you mean cuda?"),
        ("checks: {cuda: 13}", "checks/cuda: must be text, not a number; put it in quotes"),
        ("checks: {python: null}", "checks/python: has no value; give it one, or remove the key"),
        ("checks: {python: '3.12.1'}", 'must be a version such as 3.12 or 13, not "3.12.1"'),
        ("checks: {imports: ['a b']}", '"a b" is no name of a distribution or module'),
        ("checks: {equal: [a]}", "checks/equal/0: must be a list, not text"),
        ("checks: {equal: [[a, 1]]}", "checks/equal/0: must be text, not a number"),
        ("index: http://h", "unknown key index"),
    ],
)
def test_bad_checks_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = lock_with(tmp_path, f"kind: wheels, requirements: x.txt, {text}")
    with pytest.raises(SparkwrightError) as error:
        load_lock(path)
    assert message in str(error.value)


def test_another_requirements_file_is_refused(tmp_path: Path) -> None:
    lock = load_lock(lock_with(tmp_path, f"kind: wheels, requirements: x.txt, sha256: '{HASH}'"))
    with pytest.raises(SparkwrightError, match=r"x\.txt: No such file"):
        locked_text(lock, lock.artifacts["vllm-x"])
    (tmp_path / "x.txt").write_text("a==1\n")
    with pytest.raises(SparkwrightError, match=f"has sha256 .*, the lock says {HASH}"):
        locked_text(lock, lock.artifacts["vllm-x"])


# --- choosing, rendering --------------------------------------------------------------------------


def test_a_spark_takes_the_newest_platform_it_has() -> None:
    names_ = [
        "x-1-cp312-cp312-manylinux_2_40_aarch64.whl",
        "x-1-cp312-cp312-manylinux_2_28_x86_64.whl",
        "x-1-cp311-cp311-manylinux_2_28_aarch64.whl",
        "x-1-py3-none-any.whl",
        "x-1-cp38-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64.whl",
        "x-1-cp312-cp312-manylinux_2_28_aarch64.whl",
        "x-1-cp312-cp312-manylinux_2_34_aarch64.whl",
        "x-1-cp312-cp312-linux_aarch64.whl",
    ]
    found = [file.name for file in best(WheelFile(name, "") for name in names_)]
    assert found == [names_[6], names_[5], names_[7], names_[4], names_[3]]


def test_only_wheels_are_read_off_a_page() -> None:
    page = '<a href="a.zip">a</a><a>b</a><a href="/r/x-1%2Bg-py3-none-any.whl?y#sha256=ab">c</a>'
    (found,) = wheels_on("http://h/p/", page * 2)
    assert (found.name, found.project, found.version) == ("x-1+g-py3-none-any.whl", "x", "1+g")
    assert (found.url, found.sha256) == (
        "http://h/r/x-1%2Bg-py3-none-any.whl?y#sha256=ab", "ab"
    )  # fmt: skip


def test_the_same_set_has_the_same_text() -> None:
    one = Chosen("b", "1", WheelFile("b-1-py3-none-any.whl", "u#f"), 5, HASH, True)
    two = dataclasses.replace(one, project="a", indexed=False)
    text = render("x", [one, two])
    assert text == render("x", [two, one])
    assert text.splitlines()[0] == (
        "# 2 wheels, 10 bytes: Linux aarch64, glibc 2.39, CPython 3.12."
    )
    assert text.splitlines()[2:] == [
        f"a @ u --hash=sha256:{HASH}", f"b==1 --hash=sha256:{HASH}"
    ]  # fmt: skip


def test_a_project_without_a_wheel_for_a_spark_is_named(upstream: Upstream, tmp_path: Path) -> None:
    upstream.add("main", "alien", "1", tag="cp312-cp312-manylinux_2_28_x86_64")
    path = tmp_path / "x.toml"
    head = '[project]\nname = "x"\nversion = "0"\nrequires-python = "==3.12.*"\n'
    path.write_text(f'{head}dependencies = ["alien"]\n')
    with pytest.raises(SparkwrightError, match=r"x\.toml: uv cannot resolve it: .*alien"):
        compile_set(path, [])


# --- the project's own lock -----------------------------------------------------------------------


def test_every_profile_of_ours_is_in_the_lock_with_its_inputs() -> None:
    lock = load_lock(PROJECT / "artifacts.lock.yaml")
    for name in names():
        profile = profile_of(name)
        item = lock.artifacts[profile.artifact]
        path = lock.path.parent / str(item.requirements)
        inputs = inputs_of(path.with_suffix(".toml"))
        assert inputs["project"]["requires-python"] == f"=={profile.python}.*"
        assert {lock.artifacts[wheel].kind for wheel in profile.wheels} == {"wheel"}
        assert set(wheels_of(inputs)) <= set(profile.wheels)
        assert item.resolved == path.exists()
        if item.resolved:
            locked_text(lock, item)


def test_the_parts_of_flashinfer_have_one_version_in_stock() -> None:
    lock = load_lock(PROJECT / "artifacts.lock.yaml")
    text = (REQUIREMENTS / "vllm-stock.txt").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("flashinfer-python==")]
    version = line.split("==")[1].split()[0]
    for wheel in profile_of("stock").wheels:
        assert (lock.artifacts[wheel].version or "").split("+")[0] == version
