"""`sparkwright lock --debs`, `--check`, `--outdated`, with a signed repository on loopback."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from sparkwright import cli_lock, lock_check, site
from sparkwright.artifacts import load_lock
from sparkwright.bundle_key import have_key
from sparkwright.bundle_layout import replace_text
from sparkwright.deb_index import debs_of, parse, render
from sparkwright.errors import SparkwrightError
from sparkwright.fleet import load_fleet
from sparkwright.fleet_settings import settings_defaults
from sparkwright.lock_machine import TAR, machine_files, ssh_words
from sparkwright.needs_parts import base_packages
from sparkwright.paths import PROJECT
from tests.bundle.place import Place

NAME = "debs-ubuntu-24.04-arm64"
FIELDS = ("Package", "Version", "Architecture", "Depends", "Filename", "Size", "SHA256")


class Upstream:
    """A flat repository of the place's packages, and a machine that has it as its source."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.key = have_key(place.top / "upstream.asc")
        self.machine = place.top / "machine"
        status = (place.top / "debs/u.status").read_text()
        line = "deb [signed-by=/usr/share/keyrings/up.gpg] " + f"{place.server.url}/pool/ ./\n"
        for name, content in {
            "etc/apt/sources.list": line.encode(),
            "etc/apt/auth.conf": b"machine x password secret",
            "usr/share/keyrings/up.gpg": self.key.public,
            "var/lib/dpkg/status": status.encode(),
        }.items():
            path = self.machine / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.publish(place.listing)

    def publish(self, listing: str) -> None:
        """Sign an index of these packages."""
        rows = [{**p, "Filename": p["Filename"].removeprefix("pool/")} for p in parse(listing)]
        packages = render(rows, FIELDS)
        digest = hashlib.sha256(packages.encode()).hexdigest()
        date = f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S} UTC"
        release = f"Origin: up\nDate: {date}\nSHA256:\n {digest} {len(packages)} Packages\n"
        self.place.server.files["/pool/Packages"] = packages.encode()
        self.place.server.files["/pool/InRelease"] = self.key.clearsign(release)

    def lock(self, *words: str) -> int:
        site._lock.cache_clear()
        return cli_lock.main(["--fleet", str(self.place.top / "sparks.yaml"), *words])

    def resolve(self) -> int:
        return self.lock("--debs", str(self.machine))


@pytest.fixture
def upstream(place: Place) -> Upstream:
    return Upstream(place)


def test_packages_are_resolved_by_apt_for_the_machine(
    upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    place = upstream.place
    del place.lock["artifacts"][NAME]
    place.write()
    assert upstream.resolve() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "asking apt for 8 packages for ubuntu 24.04 on aarch64"
    assert "package libshared1: (none) -> 1:1.0-1" in lines
    assert lines[-1] == "artifacts.lock.yaml: 9 packages moved, 27000 bytes in all"
    item = load_lock(place.top / "artifacts.lock.yaml").artifact(NAME)
    debs = debs_of((place.top / str(item.listing)).read_text())
    assert [deb.package for deb in debs] == sorted([*base_packages(), "libshared1"])
    assert debs[0].url == f"{place.server.url}/pool/{debs[0].file}"
    place.lock = yaml.safe_load((place.top / "artifacts.lock.yaml").read_text())
    place.fill()
    assert place.verify() == []


def test_the_same_indexes_give_the_same_lock(
    upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.resolve()
    texts = [path.read_text() for path in sorted((upstream.place.top / "debs").iterdir())]
    lock = (upstream.place.top / "artifacts.lock.yaml").read_text()
    capsys.readouterr()
    assert upstream.resolve() == 0
    assert "0 packages moved" in capsys.readouterr().out
    assert texts == [p.read_text() for p in sorted((upstream.place.top / "debs").iterdir())]
    assert lock == (upstream.place.top / "artifacts.lock.yaml").read_text()


def test_what_moved_is_told_package_by_package(
    upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.resolve()
    capsys.readouterr()
    newer = upstream.place.paragraph("cmake", "2:3.0-1")
    upstream.publish(upstream.place.listing.replace(upstream.place.paragraph("cmake"), newer))
    assert upstream.resolve() == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[0] == "package cmake: 1:1.0-1 -> 2:3.0-1"
    assert lines[1].startswith("artifacts.lock.yaml: 1 packages moved")


def test_a_machine_comes_as_a_directory_or_an_archive_and_never_with_passwords(
    upstream: Upstream,
) -> None:
    files = machine_files(str(upstream.machine), None)
    assert set(files) == {
        "etc/apt/sources.list", "usr/share/keyrings/up.gpg", "var/lib/dpkg/status",
    }  # fmt: skip
    place = upstream.place.top / "machine.tgz"
    with tarfile.open(place, "w:gz") as tar:
        for name, data in {**files, "etc/passwd": b"x", "etc/apt/../../evil": b"x"}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        link = tarfile.TarInfo("etc/apt/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
        tar.addfile(link)
    assert machine_files(str(place), None) == files


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_an_archive_that_is_none_is_told(upstream: Upstream, content: bytes) -> None:
    place = upstream.place.top / "m.tgz"
    place.write_bytes(content)
    with pytest.raises(SparkwrightError, match=r"--debs .*m\.tgz: is no archive of a machine"):
        machine_files(str(place), None)


def test_a_spark_is_asked_as_sparks_yaml_says_and_never_asks_back(place: Place) -> None:
    path = place.top / "sparks.yaml"
    fleet = yaml.safe_load(path.read_text())
    fleet["defaults"]["ssh"] = {"user": "me", "port": 2222, "key": "k", "jump": "a@b:1"}
    path.write_text(yaml.safe_dump(fleet))
    found = load_fleet(path, settings_defaults(PROJECT / "group_data/all.py"))
    words = ssh_words(found.sparks[0], place.top)
    assert words[-3:] == ["-l", "me", "192.0.2.1"]
    for part in ("BatchMode=yes", "Port=2222", "StrictHostKeyChecking=yes"):
        assert part in words
    assert words[words.index("-J") + 1] == "a@b:1"
    assert words[words.index("-i") + 1] == str(place.top / "k")
    assert "auth.conf" in TAR


def test_an_unknown_machine_is_told(upstream: Upstream, capsys: pytest.CaptureFixture[str]) -> None:
    assert upstream.lock("--debs", "spark-7") == 2
    assert capsys.readouterr().err == (
        "--debs spark-7: is no spark of the fleet, no directory and no .tgz of a machine; "
        "did you mean spark-1?\n"
    )


def test_a_machine_without_sources_is_told(
    upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    (upstream.machine / "etc/apt/sources.list").unlink()
    assert upstream.resolve() == 2
    assert "has no etc/apt/sources.list" in capsys.readouterr().err


def test_a_computer_without_apt_is_told(
    upstream: Upstream, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkwright.lock_debs.have_apt", lambda: False)
    assert upstream.resolve() == 2
    assert capsys.readouterr().err == (
        "--debs: needs apt, which this computer has not; run it on Debian or Ubuntu "
        "(a container will do); the lock is the same\n"
    )


def test_an_index_that_is_not_signed_by_the_machines_key_is_refused(
    upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (upstream.place.top / "artifacts.lock.yaml").read_text()
    other = have_key(upstream.place.top / "other.asc")
    replace_text(upstream.machine / "usr/share/keyrings/up.gpg", other.public)
    assert upstream.resolve() == 2
    assert "NO_PUBKEY" in capsys.readouterr().err
    assert before == (upstream.place.top / "artifacts.lock.yaml").read_text()


def test_a_package_that_cannot_be_had_is_told_in_apts_words(
    upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.place.settings["packages_extra"] = ["ccache"]
    upstream.place.write()
    assert upstream.resolve() == 2
    assert "apt: cannot install the packages: E: Unable to locate package ccache" in \
        capsys.readouterr().err  # fmt: skip


# --- --check ---


def test_check_says_that_the_lock_covers_the_recipes(
    upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    assert upstream.lock("--check") == 0
    assert capsys.readouterr().out == "artifacts.lock.yaml: covers the recipes\n"


def test_check_names_what_the_lock_lacks(
    upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    place = upstream.place
    place.lock["snapshots"] = {}
    place.settings["packages_extra"] = ["ccache"]
    place.write()
    assert upstream.lock("--check") == 1
    one, two = capsys.readouterr().out.splitlines()
    assert one.startswith("artifacts.lock.yaml: lab/m@main: the lock holds no commit")
    assert two.startswith(f"artifacts.lock.yaml: artifacts/{NAME}: is older than the recipes")


def test_check_asks_for_packages_only_where_the_lock_has_some(upstream: Upstream) -> None:
    del upstream.place.lock["artifacts"][NAME]
    upstream.place.write()
    assert upstream.lock("--check") == 0


def test_check_without_a_fleet_looks_at_every_recipe(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    site._lock.cache_clear()
    assert cli_lock.main(["--file", str(place.top / "artifacts.lock.yaml"), "--check"]) == 1
    out = capsys.readouterr().out
    assert "artifacts/cuda-keyring: is not in the lock" in out  # cuda_required is the default
    assert "lab/m" not in out


# --- --outdated ---


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Machines that answer what is in this list."""
    drift: list[str] = []

    def running(failed: list[str]) -> list[str]:
        return list(drift)

    monkeypatch.setattr(lock_check, "_running", running)
    monkeypatch.setattr(lock_check, "Registry", lambda: None)
    monkeypatch.setenv("SPARKS_FILE", "none")
    return drift


def hub_answers(place: Place, commit: str) -> None:
    """What the Hub says of the branch."""
    name, listed = "/api/models/lab/m/revision/main", f"/api/models/lab/m/tree/{commit}"
    rows = place.lock["snapshots"]["lab/m@main"]["files"]
    entries = [
        {"type": "file", "path": row["path"], "size": row["size"], "oid": row.get("git_sha1", "0"),
         **({"lfs": {"oid": row["sha256"], "size": row["size"]}} if "sha256" in row else {})}
        for row in rows
    ]  # fmt: skip

    place.server.files[name] = json.dumps({"sha": commit, "tags": ["license:mit"]}).encode()
    place.server.files[listed] = json.dumps(entries).encode()
    place.server.kinds |= dict.fromkeys((name, listed), "application/json")


def no_image(place: Place) -> None:
    del place.lock["artifacts"]["page"]
    place.serve = ["model"]
    place.write()


def test_nothing_is_outdated(
    upstream: Upstream, quiet: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    no_image(upstream.place)
    hub_answers(upstream.place, "c" * 40)
    before = (upstream.place.top / "artifacts.lock.yaml").read_text()
    assert upstream.lock("--outdated") == 0
    assert capsys.readouterr().out == ("artifacts.lock.yaml: is what upstream has and what runs\n")
    assert (upstream.place.top / "artifacts.lock.yaml").read_text() == before


def test_outdated_names_upstream_machines_and_what_is_not_resolved(
    upstream: Upstream, quiet: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    no_image(upstream.place)
    upstream.place.lock["artifacts"]["half"] = {"kind": "file", "url": "https://x.example/f"}
    upstream.place.write()
    hub_answers(upstream.place, "d" * 40)
    quiet.append("spark-1: llama.cpp/current: points to a, not b")
    assert upstream.lock("--outdated") == 1
    assert capsys.readouterr().out.splitlines() == [
        "artifacts/half: not resolved yet",
        f"upstream: snapshots/lab/m@main: commit: {'c' * 40} -> {'d' * 40}",
        "spark-1: llama.cpp/current: points to a, not b",
    ]


def test_outdated_says_what_could_not_be_asked(
    upstream: Upstream, quiet: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    no_image(upstream.place)
    assert upstream.lock("--outdated") == 2
    out, err = capsys.readouterr()
    assert "lab/m@main: " in err
    assert out == ""  # nothing is claimed


def test_outdated_asks_for_newer_packages(
    upstream: Upstream, quiet: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    no_image(upstream.place)
    hub_answers(upstream.place, "c" * 40)
    newer = upstream.place.paragraph("cmake", "2:3.0-1")
    upstream.publish(upstream.place.listing.replace(upstream.place.paragraph("cmake"), newer))
    assert upstream.lock("--outdated", "--debs", str(upstream.machine)) == 1
    assert capsys.readouterr().out == "upstream: package cmake: 1:1.0-1 -> 2:3.0-1\n"


def test_a_path_of_a_missing_lock_is_told(tmp_path: Path) -> None:
    assert cli_lock.main(["--file", str(tmp_path / "no.yaml"), "--check"]) == 2


def test_outdated_asks_the_machines_as_check_does(
    upstream: Upstream, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet that pyinfra cannot even load: what it says, without its own progress."""
    monkeypatch.setenv("SPARKS_FILE", "none")
    no_image(upstream.place)
    hub_answers(upstream.place, "c" * 40)
    fleet = yaml.safe_load((upstream.place.top / "sparks.yaml").read_text())
    fleet["defaults"]["ssh"] = {"known_hosts": str(upstream.place.top / "nobody")}
    (upstream.place.top / "sparks.yaml").write_text(yaml.safe_dump(fleet))
    assert upstream.lock("--outdated") == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines()[0].startswith("sparks.yaml: sparks/spark-1/ssh/known_hosts: no file ")
