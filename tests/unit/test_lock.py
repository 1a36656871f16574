"""`sparkwright lock` against a hub and a file server on loopback."""

from __future__ import annotations

import contextlib
import http.server
import io
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sparkwright import cli_lock
from sparkwright.artifacts import HubFile, load_lock
from sparkwright.errors import SparkwrightError
from sparkwright.hub import Head, Hub
from sparkwright.lock import Measured, Wanted, resolve
from sparkwright.lock_download import measure
from sparkwright.lock_text import difference, dump
from tests.unit.hub_server import COMMIT, FakeHub, git_sha1, sha256

REPO = "ggml-org/tiny-GGUF"
FILES = {"a.gguf": b"g" * 5000, "README.md": b"# tiny"}
PROJECT = Path(__file__).parents[2]
SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123"
H40 = "b" * 40


class Place:
    """A directory with a lock and one recipe."""

    def __init__(self, tmp: Path, hub: FakeHub) -> None:
        self.path = tmp / "artifacts.lock.yaml"
        self.hub = hub
        text = (PROJECT / "recipes/gpt-oss-120b-llamacpp.yaml").read_text()
        (tmp / "recipes").mkdir()
        name = "ggml-org/gpt-oss-120b-GGUF"
        assert name in text
        (tmp / "recipes/tiny.yaml").write_text(text.replace(name, REPO))
        self.write("{}")

    def write(self, artifacts: str, snapshots: str = "{}") -> None:
        self.path.write_text(
            f"# kept\nformat: 1\nhub: {self.hub.endpoint}\nartifacts: {artifacts}\n"
            f"snapshots: {snapshots}\n"
        )

    def run(self, *words: str) -> int:
        return cli_lock.main(["--file", str(self.path), *words])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with FakeHub(REPO, dict(FILES)) as hub:
        yield Place(tmp_path, hub)


@contextlib.contextmanager
def serve(directory: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Not printed."""

    handler = partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_branch_of_a_recipe_becomes_a_commit_with_its_files(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run() == 0
    snapshot = load_lock(place.path).snapshot(REPO, "main")
    assert snapshot is not None
    assert snapshot.commit == COMMIT
    assert snapshot.license == "apache-2.0"
    assert snapshot.files == (
        HubFile("README.md", 6, git_sha1=git_sha1(FILES["README.md"])),
        HubFile("a.gguf", 5000, sha256=sha256(FILES["a.gguf"])),
    )
    out = capsys.readouterr().out
    assert f"snapshots/{REPO}@main: commit: (none) -> {COMMIT}" in out
    assert f"snapshots/{REPO}@main: files: (none) -> 2 files, 5006 bytes" in out
    assert place.path.read_text().startswith("# kept\n")


def test_second_run_asks_nothing_and_moves_nothing(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run() == 0
    text = place.path.read_text()
    place.hub.requests.clear()
    capsys.readouterr()
    assert place.run() == 0
    assert place.hub.requests == []
    assert place.path.read_text() == text
    assert capsys.readouterr().out == "artifacts.lock.yaml: nothing moved\n"


def test_update_asks_again_and_tells_what_moved(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.run()
    place.hub.files["b.gguf"] = b"new"
    del place.hub.files["a.gguf"]
    place.run()
    assert "b.gguf" not in place.path.read_text()
    capsys.readouterr()
    assert place.run("--update") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == [
        f"snapshots/{REPO}@main: files: + b.gguf",
        f"snapshots/{REPO}@main: files: - a.gguf",
    ]


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        ((401, "RepoNotFound"), "answered 401: no such repository for this token; check the name"),
        ((403, "GatedRepo"), "answered 403: the repository is gated; accept the terms at"),
        ((404, "RepoNotFound"), "answered 404: there is no such repository; check the recipe"),
        ((404, "RevisionNotFound"), "answered 404: there is no such revision; check the recipe"),
        ((503, ""), "answered 503; try again later"),
    ],
)
def test_refusal_is_told_without_the_token_and_changes_nothing(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refusal: tuple[int, str],
    message: str,
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    place.hub.faults.deny = refusal
    assert place.run() == 1
    shown = capsys.readouterr()
    assert f"{REPO}@main: {place.hub.endpoint} {message}" in shown.err
    assert SECRET not in shown.out + shown.err
    assert load_lock(place.path).snapshots == {}


def test_token_and_endpoint_of_the_environment_are_used(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.hub.faults.token = SECRET
    text = place.path.read_text().replace(place.hub.endpoint, "http://127.0.0.1:9")
    place.path.write_text(text)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("HF_ENDPOINT", place.hub.endpoint)
    assert place.run() == 0
    lock = load_lock(place.path)
    assert lock.hub == "http://127.0.0.1:9"
    assert SECRET not in place.path.read_text()


def test_unreachable_hub_is_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.path.write_text(place.path.read_text().replace(place.hub.endpoint, "http://127.0.0.1:9"))
    assert place.run() == 1
    assert "http://127.0.0.1:9 cannot be reached (ConnectionError); check the network" in (
        capsys.readouterr().err
    )


def git_archive(directory: Path) -> tuple[Path, str]:
    """A real git archive of a real commit."""
    repo = directory / "repo"
    repo.mkdir()
    git = ["git", "-C", str(repo), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    (repo / "CMakeLists.txt").write_text("project(x)\n")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    found = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    target = directory / "b11312.tar.gz"
    subprocess.run([*git, "archive", "-o", str(target), "--prefix=x/", "HEAD"], check=True)
    return target, found.stdout.strip()


def test_archive_gets_size_hash_commit_and_build_number(place: Place, tmp_path: Path) -> None:
    target, commit = git_archive(tmp_path)
    with serve(tmp_path) as url:
        place.write(f"{{src: {{kind: archive, version: b11312, url: '{url}/b11312.tar.gz'}}}}")
        assert place.run() == 0
    item = load_lock(place.path).artifact("src")
    content = target.read_bytes()
    assert (item.size, item.sha256) == (len(content), sha256(content))
    assert (item.commit, item.build_number) == (commit, 11312)


def test_archive_of_another_commit_is_refused(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, commit = git_archive(tmp_path)
    with serve(tmp_path) as url:
        place.write(
            f"{{src: {{kind: archive, version: b1, commit: {H40}, url: '{url}/b11312.tar.gz'}}}}"
        )
        assert place.run() == 1
    assert f"has commit {commit}, the lock says {H40}; find out why" in capsys.readouterr().err
    assert load_lock(place.path).artifacts["src"].sha256 is None


def test_file_of_another_hash_is_refused(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.deb").write_bytes(b"deb")
    with serve(tmp_path) as url:
        place.write(f"{{key: {{kind: file, sha256: {'0' * 64}, url: '{url}/k.deb'}}}}")
        assert place.run() == 1
    assert f"has sha256 {sha256(b'deb')}, the lock says {'0' * 64}" in capsys.readouterr().err
    assert load_lock(place.path).artifacts["key"].size is None


def test_absent_file_and_web_page_are_refused(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "login.html").write_text("<html>")
    with serve(tmp_path) as url:
        place.write(
            f"{{a: {{kind: file, url: '{url}/none'}}, b: {{kind: file, url: '{url}/login.html'}}}}"
        )
        assert place.run() == 1
    err = capsys.readouterr().err
    assert "/none: the server answered 404; check the address" in err
    assert "/login.html: a web page came instead of the file; a login or proxy page?" in err


def test_wheels_get_the_hash_of_their_file(place: Place) -> None:
    (place.path.parent / "r.txt").write_text("x==1\n")
    place.write("{w: {kind: wheels, requirements: r.txt}}")
    assert place.run() == 0
    assert load_lock(place.path).artifact("w").sha256 == sha256(b"x==1\n")


def test_bad_lock_is_exit_2_and_stays(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.path.write_text("format: 3\n")
    assert place.run() == 2
    assert place.path.read_text() == "format: 3\n"
    assert "format: is 3" in capsys.readouterr().err
    assert place.hub.requests == []


def test_commit_comment_is_read_from_a_plain_tar_only_when_it_is_one(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "plain.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("x"), io.BytesIO())
    (tmp_path / "text").write_text("no archive")
    with serve(tmp_path) as url:
        assert measure(f"{url}/plain.tar").commit is None
        assert measure(f"{url}/text") == Measured(10, sha256(b"no archive"), None)


class OtherHub:
    """A hub that answers a pinned commit with another one."""

    def head(self, repo: str, revision: str) -> Head:
        return Head("c" * 40, None)

    def files(self, repo: str, commit: str) -> tuple[HubFile, ...]:
        return (HubFile("a", 1, sha256="0" * 64),)


def test_pinned_commit_cannot_become_another(place: Place) -> None:
    lock = load_lock(place.path)
    new, problems = resolve(lock, [Wanted(REPO, H40)], OtherHub(), measure)
    assert [str(problem) for problem in problems] == [
        f"{REPO}@{H40}: the Hub answered with another commit, {'c' * 40}"
    ]
    assert new == lock


def test_text_is_stable_and_survives_numbers_in_disguise(place: Place, tmp_path: Path) -> None:
    commit = "1" * 20 + "e" + "2" * 19
    files = f"[{{path: '0x10', size: 1, sha256: '{'9' * 64}'}}]"
    place.write("{}", f"{{o/r@main: {{repo: o/r, revision: main, commit: '{commit}', "
                f"files: {files}}}}}")  # fmt: skip
    lock = load_lock(place.path)
    again = tmp_path / "again.yaml"
    again.write_text(dump(lock))
    assert load_lock(again).snapshots == lock.snapshots
    assert dump(load_lock(again)) == dump(lock)
    assert difference(lock, load_lock(again)) == []


def test_pages_of_a_long_listing_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"f{at}": b"x" for at in range(3)}
    with FakeHub(REPO, files) as server:
        hub = Hub(server.endpoint)
        original = hub._get

        def get(path: str, name: str) -> Any:
            answer = original(path.replace("&cursor=2", ""), name)
            if "cursor" not in path and "/tree/" in path:
                link = f"https://other.example{path}&cursor=2"
                answer.headers["Link"] = f'<{link}>; rel="next"'
            return answer

        monkeypatch.setattr(hub, "_get", get)
        assert [file.path for file in hub.files(REPO, COMMIT)] == sorted([*files, *files])


def test_answer_that_is_no_hub_is_told(tmp_path: Path) -> None:
    (tmp_path / "api/models/o/r/revision").mkdir(parents=True)
    (tmp_path / "api/models/o/r/revision/main").write_text("<html>")
    with serve(tmp_path) as url, pytest.raises(SparkwrightError, match="with a web page"):
        Hub(url).head("o/r", "main")
