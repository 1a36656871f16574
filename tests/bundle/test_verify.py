"""What `bundle verify` says of bundles that are not right; nothing is asked of the network."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pysequoia
import pytest

from sparkwright import cli_bundle
from sparkwright.bundle_key import USER, have_key
from sparkwright.bundle_layout import tree
from sparkwright.errors import SparkwrightError
from tests.bundle.conftest import copy_in, spoil
from tests.bundle.place import COMMIT, Place, sha256

AGAIN = "fill it again: sparkwright bundle"
LLAMA = "files/llama.cpp-source/b1.tar.gz"
Q4 = f"hub/lab/m/resolve/{COMMIT}/m-Q4.gguf"
CMAKE = "apt/cmake_1.0-1_arm64.deb"
DEBS = "artifacts/debs-ubuntu-24.04-arm64"
WHOSE = {
    LLAMA: "artifacts/llama.cpp-source", Q4: "snapshots/lab/m@main", CMAKE: DEBS,
    "images/page.tar": "artifacts/page",
}  # fmt: skip


def test_a_whole_bundle_is_right_without_a_network(filled: Place) -> None:
    filled.server.files.clear()
    before = {name: (filled.bundle / name).stat().st_mtime_ns for name in tree(filled.bundle)}
    assert filled.verify() == []
    assert filled.server.requests == []
    assert before == {n: (filled.bundle / n).stat().st_mtime_ns for n in tree(filled.bundle)}
    assert filled.said[-1].endswith(
        "24 files, 382.4 kB, for ubuntu 24.04 on aarch64: whole and right"
    )


@pytest.mark.parametrize("name", sorted(WHOSE))
def test_a_missing_file_is_named(filled: Place, name: str) -> None:
    (filled.bundle / name).unlink()
    assert filled.verify() == [f"B/{name} ({WHOSE[name]}): is missing; {AGAIN}"]


@pytest.mark.parametrize("name", [LLAMA, Q4, CMAKE])
def test_a_truncated_file_is_named(filled: Place, name: str) -> None:
    data = (filled.bundle / name).read_bytes()
    (filled.bundle / name).write_bytes(data[:-7])
    what = f"has {len(data) - 7} bytes, not {len(data)}"
    assert filled.verify() == [f"B/{name} ({WHOSE[name]}): {what}; {AGAIN}"]


@pytest.mark.parametrize("name", [LLAMA, Q4, CMAKE])
def test_a_tampered_file_is_named_even_when_its_time_is_kept(filled: Place, name: str) -> None:
    path = filled.bundle / name
    wanted, times = sha256(path.read_bytes()), path.stat()
    spoil(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    what = f"has hash {sha256(path.read_bytes())}, not {wanted}"
    assert filled.verify() == [f"B/{name} ({WHOSE[name]}): {what}; {AGAIN}"]
    assert filled.verify(fast=True) == []  # believes stamps: as its help says


@pytest.mark.parametrize("name", ["artifacts.lock.yaml", "simple/alpha/index.html"])
def test_a_tampered_file_of_ours_is_named(filled: Place, name: str) -> None:
    path = filled.bundle / name
    wanted = sha256(path.read_bytes())
    spoil(path)
    what = f"has sha256 {sha256(path.read_bytes())}, the manifest says {wanted}"
    assert filled.verify() == [f"B/{name}: {what}; {AGAIN}"]


def test_a_damaged_layer_is_named(filled: Place) -> None:
    path = filled.bundle / "images/page.tar"
    data = path.read_bytes()
    last = max(filled.layers, key=lambda name: data.rindex(f"blobs/sha256/{name}".encode()))
    at = data.rindex(f"blobs/sha256/{last}".encode()) + 512 + 100
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert filled.verify() == [
        f"B/images/page.tar (artifacts/page): layer {last[:12]} is damaged; {AGAIN}"
    ]


def test_another_image_of_that_name_is_named(filled: Place) -> None:
    path = filled.bundle / "images/page.tar"
    path.write_bytes(path.read_bytes().replace(b"architecture", b"architectura"))
    (line,) = filled.verify()
    assert line.startswith("B/images/page.tar (artifacts/page): layer ")
    assert line.endswith(f"is damaged; {AGAIN}")


def test_a_foreign_file_is_named(filled: Place) -> None:
    (filled.bundle / "files/other.bin").write_text("x")
    (filled.bundle / "apt/evil_1_arm64.deb").write_text("x")
    assert filled.verify() == [
        f"B/{name}: does not belong to the bundle; remove it"
        for name in ("apt/evil_1_arm64.deb", "files/other.bin")
    ]


def test_wheels_of_another_architecture_or_python_are_named(filled: Place) -> None:
    """A03: one report names them all, before anything is copied."""
    copy_in(filled.x86, filled.bundle / "wheels")
    copy_in(filled.cp311, filled.bundle / "wheels")
    wanted = "the machines want Python 3.12 on aarch64-manylinux_2_39; remove it"
    assert filled.verify() == [
        f"B/wheels/{filled.cp311.name}: is for cp311-cp311-manylinux_2_28_aarch64; {wanted}",
        f"B/wheels/{filled.x86.name}: is for cp312-cp312-manylinux_2_28_x86_64; {wanted}",
    ]


def test_a_wheel_in_the_place_of_the_right_one_is_named(filled: Place) -> None:
    """A wheelhouse made on the laptop: its own architecture's wheel, whose hash is locked too."""
    (filled.bundle / f"wheels/{filled.beta.name}").unlink()
    copy_in(filled.x86, filled.bundle / "wheels")
    assert filled.verify() == [
        f"B/wheels/{filled.x86.name} (artifacts/hub-client): does not fit Python 3.12 on "
        f"aarch64-manylinux_2_39; {AGAIN}",
        f"B/wheels/{filled.beta.name}: is missing; {AGAIN}",
    ]


def test_a_missing_or_tampered_wheel_is_named_once(filled: Place) -> None:
    (filled.bundle / f"wheels/{filled.alpha.name}").unlink()
    spoil(filled.bundle / f"wheels/{filled.beta.name}")
    assert filled.verify() == [
        f"B/wheels/{name} (artifacts/hub-client): {what}; {AGAIN}"
        for name, what in (
            (filled.alpha.name, "is missing"),
            (filled.beta.name, "has none of the locked hashes"),
        )
    ]


def test_a_set_that_is_not_closed_is_told_in_uvs_words(place: Place) -> None:
    """alpha wants beta, and the locked set forgot it (A02)."""
    wheel = sha256(place.alpha.read_bytes())
    place.requirements(f"alpha==1.0 --hash=sha256:{wheel}\n")
    place.write()
    place.fill()
    (line,) = place.verify()
    assert line.startswith("artifacts/hub-client: ")
    assert "beta" in line


def test_everything_that_is_wrong_is_in_one_report(filled: Place) -> None:
    (filled.bundle / LLAMA).unlink()
    spoil(filled.bundle / Q4)
    copy_in(filled.cp311, filled.bundle / "wheels")
    (filled.bundle / "notes.txt").write_text("x")
    assert len(filled.verify()) == 4
    assert filled.said[-1].endswith("4 things are wrong")


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({"arch": "x86_64"}, ["arch aarch64, the machines have x86_64"]),
        (
            {"os_releases": ["debian 12"]},
            [
                "glibc 2.39, the machines have 2.36",
                "os ubuntu 24.04, the machines have debian 12",
                "python 3.12, the machines have 3.11",
            ],
        ),
    ],
)
def test_a_bundle_for_other_machines_is_told(
    filled: Place, settings: dict[str, object], lines: list[str]
) -> None:
    filled.settings |= settings
    release = str(settings.get("os_releases", ["ubuntu 24.04"])[0])  # type: ignore[index]  # a list
    arch = "amd64" if "arch" in settings else "arm64"
    artifacts = filled.lock["artifacts"]
    name = f"debs-{release.replace(' ', '-')}-{arch}"
    artifacts[name] = dict(artifacts["debs-ubuntu-24.04-arm64"])
    filled.write()
    found = [line for line in filled.verify() if "was made for" in line]
    assert found == [f"B: was made for {line}; {AGAIN}" for line in lines]


def test_a_bundle_of_an_older_lock_is_told(filled: Place) -> None:
    filled.lock["artifacts"]["llama.cpp-source"] |= {
        "version": "b2", **filled.upstream("/src/b2.tar.gz", b"new source"),
    }  # fmt: skip
    filled.write()
    found = filled.verify()
    assert found[0].startswith("B: was made from another artifacts.lock.yaml (")
    assert f"B/files/llama.cpp-source/b2.tar.gz (artifacts/llama.cpp-source): is missing; {AGAIN}" \
        in found  # fmt: skip


def test_a_bundle_that_was_never_finished_is_told(filled: Place) -> None:
    (filled.bundle / "MANIFEST.json").unlink()
    assert filled.verify() == [f"B: has no MANIFEST.json: it was never finished; {AGAIN}"]


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 1, "files": [3]}'])
def test_a_manifest_that_is_none_is_told(filled: Place, text: str) -> None:
    (filled.bundle / "MANIFEST.json").write_text(text)
    assert filled.verify() == [
        "B/MANIFEST.json: is no bundle's manifest; fill the bundle again: sparkwright bundle"
    ]


def test_a_manifest_of_a_later_format_is_told(filled: Place) -> None:
    (filled.bundle / "MANIFEST.json").write_text(json.dumps({"format": 2}))
    assert filled.verify() == [
        "B/MANIFEST.json: has format 2, this version reads 1; use the sparkwright it is from"
    ]


# --- the signature ---


def test_another_key_is_told(filled: Place) -> None:
    old = have_key(filled.key).fingerprint
    filled.key.unlink()
    new = have_key(filled.key).fingerprint
    assert filled.verify() == [f"B/apt/key.gpg: is the key {old}, this fleet's is {new}; {AGAIN}"]
    filled.fill()
    assert filled.server.requests == []
    assert filled.verify() == []


def test_an_index_signed_by_somebody_else_is_told(filled: Place, tmp_path: Path) -> None:
    other = have_key(tmp_path / "other.asc")
    release = (filled.bundle / "apt/Release").read_text()
    (filled.bundle / "apt/InRelease").write_bytes(other.clearsign(release))
    own = have_key(filled.key).fingerprint
    (line, *_) = [text for text in filled.verify() if "InRelease" in text and "signed" in text]
    assert line.startswith(f"B/apt/InRelease: is not signed by {own} (")


def test_an_old_signature_of_the_right_key_is_told(filled: Place) -> None:
    """Two bundles mixed: index and signature are genuine and do not belong together."""
    key = have_key(filled.key)
    release = (filled.bundle / "apt/Release").read_text()
    (filled.bundle / "apt/InRelease").write_bytes(key.clearsign(release.replace("arm64", "riscv")))
    assert f"B/apt/InRelease: vouches for another index; {AGAIN}" in filled.verify()


def test_a_changed_index_is_told(filled: Place) -> None:
    """The manifest is made to agree: the signature still says it."""
    path = filled.bundle / "apt/Packages"
    path.write_text(path.read_text().replace("Depends: libshared1 (>= 1.0)", "Depends: evil", 1))
    manifest = json.loads((filled.bundle / "MANIFEST.json").read_text())
    for entry in manifest["files"]:
        if entry["path"] == "apt/Packages":
            entry |= {"size": path.stat().st_size, "sha256": sha256(path.read_bytes())}
    (filled.bundle / "MANIFEST.json").write_text(json.dumps(manifest))
    assert filled.verify() == [f"B/apt/Packages: lists other packages than the lock; {AGAIN}"]


def test_an_expired_key_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = pysequoia.Tsk.generate(
        USER, profile=pysequoia.Profile.RFC4880, validity_seconds=86_400
    )
    place.key.write_text(str(secret))
    place.fill()
    ends = secret.extract_certificate().expiration or datetime.now(UTC)

    class Later(datetime):
        """The day after."""

        @classmethod
        def now(cls, tz: object = None) -> Later:
            return cls.fromtimestamp(ends.timestamp() + 60, UTC)

    monkeypatch.setattr("sparkwright.bundle_key.datetime", Later)
    told = (
        f"{place.key}: the key expired {ends:%Y-%m-%d}; move it away: the next run makes a new "
        "one, which machines get with the bundle"
    )
    assert told in place.verify()
    with pytest.raises(SparkwrightError) as error:
        place.fill()
    assert str(error.value) == told


def test_a_file_that_is_no_key_is_told(place: Place) -> None:
    place.key.write_text("hello")
    with pytest.raises(SparkwrightError, match=r"bundle-key\.asc: is no signing key \("):
        place.fill()


# --- packages: apt's own simulation, and ours where there is no apt ---


@pytest.mark.parametrize("apt", [True, False])
def test_a_package_that_wants_what_nobody_has_is_told(
    place: Place, apt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkwright.bundle_verify_apt.have_apt", lambda: apt)
    place.listing = place.listing.replace(
        place.paragraph("cmake"), place.paragraph("cmake", depends="librhash0 (>= 1.2)")
    )
    place.list_debs()
    place.write()
    place.fill()
    found = place.verify()
    hint = "run: sparkwright lock --debs SPARK"
    words = "cmake : Depends: librhash0 (>= 1.2) but it is not installable"
    assert found == [f"B/apt: {words if apt else 'cmake 1:1.0-1 wants librhash0 (>= 1.2)'}; {hint}"]


@pytest.mark.parametrize("apt", [True, False])
def test_an_older_package_on_the_machine_is_told(
    filled: Place, apt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status says that libc6 is older than libshared1 wants."""
    monkeypatch.setattr("sparkwright.bundle_verify_apt.have_apt", lambda: apt)
    status = filled.top / "debs/u.status"
    status.write_text(status.read_text().replace("2.39", "2.31"))
    assert [line for line in filled.verify() if "libc6 (>= 2.38)" in line]


# --- the command ---


def command(place: Place, *words: str) -> int:
    return cli_bundle.main([*words, str(place.bundle), "--fleet", str(place.top / "sparks.yaml")])


def test_the_command_says_how_it_went(filled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(filled, "verify") == 0
    assert "whole and right" in capsys.readouterr().out
    (filled.bundle / LLAMA).unlink()
    assert command(filled, "verify") == 1
    assert capsys.readouterr().err == (
        f"{filled.bundle}/{LLAMA} (artifacts/llama.cpp-source): is missing; {AGAIN}\n"
    )


def test_no_directory_is_told(place: Place) -> None:
    with pytest.raises(SparkwrightError, match="no such directory; fill it again"):
        command(place, "verify")


def test_the_command_fills_and_says_what_is_not_whole(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.server.faults.status["/src/b1.tar.gz"] = 404
    assert command(place) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("artifacts/llama.cpp-source: b1.tar.gz: ")
    assert err[-1] == f"{place.bundle}: not whole; what came is kept, run it again"
    place.server.faults.status.clear()
    assert command(place) == 0
    assert capsys.readouterr().out.endswith("24 files, 382.4 kB: written\n")
