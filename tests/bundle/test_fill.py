"""Filling a bundle: what lies where, a second run, resuming, a changed lock."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparkwright import cli_bundle
from sparkwright.bundle_layout import read_manifest, tree
from sparkwright.bundle_lock import held
from sparkwright.errors import SparkwrightError
from tests.bundle.conftest import spoil
from tests.bundle.place import COMMIT, Place, sha256

Q4 = f"/lab/m/resolve/{COMMIT}/m-Q4.gguf"


def stats(place: Place) -> dict[str, int]:
    return {name: (place.bundle / name).stat().st_mtime_ns for name in tree(place.bundle)}


def failed(place: Place) -> str:
    """What a run that fails says."""
    with pytest.raises(SparkwrightError) as error:
        place.fill()
    return str(error.value).replace(place.server.url, "U").replace(str(place.bundle), "B")


def test_everything_has_its_place(filled: Place) -> None:
    found = set(tree(filled.bundle))
    debs = {name for name in found if name.endswith(".deb")}
    assert len(debs) == 9
    assert found - debs == {
        "apt/InRelease", "apt/Packages", "apt/Release", "apt/key.gpg", "artifacts.lock.yaml",
        "files/llama.cpp-source/b1.tar.gz", "files/tiktoken-o200k_base/o200k_base.tiktoken",
        f"hub/lab/m/resolve/{COMMIT}/README.md", f"hub/lab/m/resolve/{COMMIT}/m-Q4.gguf",
        "images/page.tar", "simple/index.html", "simple/alpha/index.html",
        "simple/beta/index.html", f"wheels/{filled.alpha.name}", f"wheels/{filled.beta.name}",
    }  # fmt: skip


def test_the_manifest_names_every_file_and_its_hash(filled: Place) -> None:
    manifest = read_manifest(filled.bundle)
    assert manifest is not None
    assert {entry.path for entry in manifest.files} == set(tree(filled.bundle))
    for entry in manifest.files:
        data = (filled.bundle / entry.path).read_bytes()
        assert (entry.size, entry.sha256) == (len(data), sha256(data))
    sums = subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=filled.bundle,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (sums.returncode, sums.stdout, sums.stderr) == (0, "", "")
    assert manifest.made_for == {
        "arch": "aarch64", "os": "ubuntu 24.04", "python": "3.12", "glibc": "2.39",
    }  # fmt: skip


def test_the_secret_key_stays_outside(filled: Place) -> None:
    assert filled.key.stat().st_mode & 0o777 == 0o600
    secret = filled.key.read_bytes()
    assert b"PRIVATE KEY" in secret
    assert not [name for name in tree(filled.bundle)
                if b"PRIVATE KEY" in (filled.bundle / name).read_bytes()]  # fmt: skip


def test_pip_reads_the_index(filled: Place, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pip", "download", "--no-deps", "--isolated", "--quiet"]
    where = ["--index-url", f"file://{filled.bundle}/simple/", "--dest", str(tmp_path / "got")]
    subprocess.run([*words, *where, "alpha"], check=True)
    assert [path.name for path in (tmp_path / "got").iterdir()] == [filled.alpha.name]


@pytest.mark.parametrize("deep", [False, True])
def test_a_second_run_asks_nothing_and_changes_nothing(filled: Place, deep: bool) -> None:
    before = stats(filled)
    again = filled.fill(deep=deep)
    assert not again.changed
    assert filled.server.requests == []
    assert stats(filled) == before
    assert (again.disk.hashed > 0) is deep
    assert filled.said == [f"{filled.bundle}: 16 files (376.0 kB) are there; nothing is missing"]


def test_a_copied_bundle_is_proved_again_and_nothing_comes(filled: Place) -> None:
    """Another file system has other times: no stamp holds there."""
    for name in tree(filled.bundle):
        os.utime(filled.bundle / name, (1, 1))
    assert filled.fill().disk.hashed > 0
    assert filled.server.requests == []
    assert filled.fill().disk.hashed == 0


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("files/llama.cpp-source/b1.tar.gz", "/src/b1.tar.gz"),
        (f"hub/lab/m/resolve/{COMMIT}/README.md", f"/lab/m/resolve/{COMMIT}/README.md"),
        ("apt/cmake_1.0-1_arm64.deb", "/pool/cmake_1.0-1_arm64.deb"),
    ],
)
def test_only_what_is_damaged_comes_again(filled: Place, name: str, asked: str) -> None:
    spoil(filled.bundle / name)
    filled.fill()
    assert [path for path, _ in filled.server.requests] == [asked]
    assert filled.verify() == []


def test_a_damaged_wheel_and_image_come_again(filled: Place) -> None:
    spoil(filled.bundle / f"wheels/{filled.beta.name}")
    archive = filled.bundle / "images/page.tar"
    archive.write_bytes(archive.read_bytes()[:5000])
    filled.fill()
    assert filled.verify() == []


def test_same_size_and_time_is_found_by_deep_alone(filled: Place) -> None:
    path = filled.bundle / "files/llama.cpp-source/b1.tar.gz"
    times = path.stat()
    spoil(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    filled.fill()
    assert filled.server.requests == []
    filled.fill(deep=True)
    assert [path for path, _ in filled.server.requests] == ["/src/b1.tar.gz"]


def test_a_cut_is_resumed_at_once(place: Place) -> None:
    place.server.faults.cut["/src/b1.tar.gz"] = 1
    place.fill()
    ranges = [span for path, span in place.server.requests if path == "/src/b1.tar.gz"]
    assert ranges == [None, "bytes=45000-"]
    assert place.verify() == []


def test_a_connection_that_always_breaks_is_named_and_what_came_is_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkwright.bundle_fetch.ATTEMPTS", 2)
    place.server.faults.cut[Q4] = 99
    assert failed(place) == (
        f"snapshots/lab/m@main: m-Q4.gguf: U{Q4}: the connection broke (ProtocolError); "
        "150000 bytes came; run it again: what is there is kept"
    )
    assert not (place.bundle / "MANIFEST.json").exists()
    place.server.faults.cut.clear()
    place.server.requests.clear()
    place.fill()
    manifest, rest = place.server.requests
    assert manifest[0].startswith("/v2/lab/page/manifests/")
    assert rest == (Q4, "bytes=150000-")
    assert place.verify() == []


def test_a_login_page_is_told(place: Place) -> None:
    place.server.faults.page |= {"/src/b1.tar.gz", "/pool/cmake_1.0-1_arm64.deb"}
    assert failed(place).splitlines() == [
        f"{name}: U{path}: a web page came instead of the file; a login or proxy page?"
        for name, path in (
            (
                "artifacts/debs-ubuntu-24.04-arm64: cmake_1.0-1_arm64.deb",
                "/pool/cmake_1.0-1_arm64.deb",
            ),
            ("artifacts/llama.cpp-source: b1.tar.gz", "/src/b1.tar.gz"),
        )
    ]


def test_wrong_bytes_are_refused_with_both_hashes(place: Place) -> None:
    place.server.faults.wrong.add("/src/b1.tar.gz")
    wanted = place.lock["artifacts"]["llama.cpp-source"]["sha256"]
    data = bytearray(place.server.files["/src/b1.tar.gz"])
    data[-1] ^= 1
    assert failed(place) == (
        f"artifacts/llama.cpp-source: b1.tar.gz: U/src/b1.tar.gz: 90000 bytes with "
        f"{sha256(bytes(data))} came, expected 90000 bytes with {wanted}; "
        "find out why before you change the lock"
    )
    assert not (place.bundle / "files/llama.cpp-source/b1.tar.gz").exists()


def test_a_replaced_file_of_another_size_is_refused_before_it_comes(place: Place) -> None:
    place.server.files["/src/b1.tar.gz"] += b"more"
    assert failed(place) == (
        "artifacts/llama.cpp-source: b1.tar.gz: U/src/b1.tar.gz: 90004 bytes are offered, "
        "90000 expected; has it been replaced?"
    )


def test_a_gated_repository_is_told(place: Place) -> None:
    place.server.faults.status[Q4] = 403
    assert failed(place) == (
        f"snapshots/lab/m@main: m-Q4.gguf: U{Q4}: the server answered 403; gated: accept its "
        "terms and set HF_TOKEN of that account"
    )


def test_the_token_goes_to_the_hub_alone(place: Place) -> None:
    place.fill(token="hf_secret")
    pairs = zip(place.server.requests, place.server.tokens, strict=True)
    told = {path for (path, _), token in pairs if "hf_secret" in token}
    assert told == {Q4, Q4.replace("m-Q4.gguf", "README.md")}


def test_a_mirror_of_the_hub_is_asked_instead(place: Place) -> None:
    place.lock["hub"] = "https://hub.example"
    place.write()
    place.fill(hub={"https://hub.example": place.server.url})
    assert place.server.asked(Q4) == 1


def test_a_wheel_that_the_index_no_longer_has_is_named(place: Place) -> None:
    place.server.put_wheels(place.alpha, place.x86)
    assert failed(place).startswith("artifacts/hub-client: ")
    assert "beta" in failed(place)


def test_a_full_disk_is_refused_before_anything_comes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 64_100_000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    assert failed(place) == (
        "B: 64.4 MB are needed, 64.1 MB are free; nothing was fetched; "
        "free 300.2 kB more, or name another place"
    )
    assert not [path for path, _ in place.server.requests if path.startswith("/src")]


@pytest.mark.lab
def test_a_disk_that_fills_up_half_way_is_told_and_the_next_run_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkwright.bundle_fill.MARGIN", -(10**9))
    place.bundle.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place.bundle)]
    subprocess.run(mount, check=True)
    try:
        told = failed(place)
        assert "the disk is full" in told
        assert told.endswith("free some, run it again: what is there is kept")
        subprocess.run([*mount[:4], "remount,size=9m", *mount[5:]], check=True)
        place.fill()
        assert place.verify() == []
    finally:
        subprocess.run(["umount", str(place.bundle)], check=True)


def test_another_run_on_the_same_bundle_waits_for_nobody(place: Place) -> None:
    with held(place.bundle):
        assert failed(place) == (
            f"B: another sparkwright bundle is at work here (process {os.getpid()}); "
            "wait for its end"
        )


def test_a_directory_with_other_things_is_left_alone(place: Place) -> None:
    place.bundle.mkdir()
    (place.bundle / "holiday.jpg").write_text("x")
    assert failed(place) == (
        "B: holds other things (holiday.jpg) and is no bundle; name an empty or new directory"
    )
    assert [path.name for path in place.bundle.iterdir()] == ["holiday.jpg"]


def test_what_the_new_lock_does_not_need_is_removed(filled: Place) -> None:
    filled.serve = ["page"]
    filled.write()
    (filled.bundle / "notes.txt").write_text("mine")
    filled.fill()
    assert not (filled.bundle / "hub").exists()
    assert filled.server.requests == []
    assert filled.said[1:] == [
        f"2 files of an earlier lock were removed, such as hub/lab/m/resolve/{COMMIT}/README.md",
        f"{filled.bundle}/notes.txt: does not belong here, and verify will say so; remove it",
    ]


def test_a_later_lock_brings_its_difference_alone(filled: Place) -> None:
    filled.lock["artifacts"]["llama.cpp-source"] |= {
        "version": "b2", **filled.upstream("/src/b2.tar.gz", b"new source"),
    }  # fmt: skip
    filled.write()
    filled.fill()
    assert [path for path, _ in filled.server.requests] == ["/src/b2.tar.gz"]
    assert filled.verify() == []


def test_an_interrupted_run_goes_on_where_it_was(place: Place) -> None:
    """SIGINT while a large file is on its way: exit 130, no manifest, then only the rest."""
    place.server.faults.hold.add(Q4)
    place.serve = ["model"]
    place.write()
    code = "import sys; from sparkwright.cli import main; sys.exit(main())"
    argv = [sys.executable, "-c", code, "bundle", str(place.bundle)]
    child = subprocess.Popen([*argv, "--fleet", str(place.top / "sparks.yaml")],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    deadline = time.monotonic() + 60
    while len(list(tree_of(place.bundle))) < 14 and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=30)  # the server is silent all the time
    place.server.faults.hold.clear()
    assert child.returncode == cli_bundle.INTERRUPTED
    assert told.splitlines()[-1] == (
        f"{place.bundle}: interrupted; what came is kept, run it again"
    )
    assert not (place.bundle / "MANIFEST.json").exists()
    place.server.requests.clear()
    place.fill()
    assert {path for path, _ in place.server.requests} <= {Q4}
    assert place.verify() == []


def tree_of(top: Path) -> list[str]:
    return list(tree(top)) if (top / ".sparkwright").is_dir() else []


def test_stamps_that_are_broken_only_cost_time(filled: Place) -> None:
    stamps = filled.bundle / ".sparkwright/stamps.json"
    rows = json.loads(stamps.read_text())
    assert set(rows) >= {"images/page.tar", f"wheels/{filled.alpha.name}"}
    for text in ("", "[]", '{"images/page.tar": 5}', json.dumps({k: ["x"] for k in rows})):
        stamps.write_text(text)
        assert filled.fill().disk.hashed > 0
    assert filled.server.requests == []


def test_the_same_inputs_give_the_same_image_archive(filled: Place) -> None:
    first = hashlib.sha256((filled.bundle / "images/page.tar").read_bytes()).hexdigest()
    (filled.bundle / "images/page.tar").unlink()
    filled.fill()
    again = hashlib.sha256((filled.bundle / "images/page.tar").read_bytes()).hexdigest()
    assert first == again
    assert not list((filled.bundle / ".sparkwright/blobs").iterdir())


def test_a_bundle_that_lost_its_wholeness_has_no_manifest(filled: Place) -> None:
    """A run for a later lock that fails half-way: nobody takes the old manifest for true."""
    filled.lock["artifacts"]["llama.cpp-source"] |= {
        "version": "b2", **filled.upstream("/src/b2.tar.gz", b"new source"),
    }  # fmt: skip
    filled.write()
    filled.server.faults.status["/src/b2.tar.gz"] = 404
    assert "the server answered 404; check the address" in failed(filled)
    assert not (filled.bundle / "MANIFEST.json").exists()
    assert not (filled.bundle / "SHA256SUMS").exists()
