"""The repository's key: taken out of a real deb, compared by a real gpg, installed whole or not."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.unit.machine_case import program

KEY = program("apt_key")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, str]]:
    """Two fresh keys: name -> (public keyring, fingerprint)."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    gpg = ["gpg", "--batch", "--homedir", str(home), "--passphrase", ""]
    made = {}
    for name in ("wanted", "other"):
        subprocess.run([*gpg, "--quick-gen-key", name, "ed25519", "sign"],
                       check=True, capture_output=True)  # fmt: skip
        data = subprocess.run([*gpg, "--export", name], check=True, capture_output=True).stdout
        shown = subprocess.run([*gpg, "--with-colons", "--list-keys", name],
                               check=True, capture_output=True, text=True).stdout  # fmt: skip
        rows = [line.split(":") for line in shown.splitlines()]
        made[name] = (data, next(row[9] for row in rows if row[0] == "fpr"))
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)
    return made


def deb(root: Path, files: dict[str, bytes]) -> Path:
    """A package that holds these files."""
    tree = root / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN").chmod(0o755)
    (tree / "DEBIAN/control").write_text(
        "Package: cuda-keyring\nVersion: 1.1-1\nArchitecture: all\n"
        "Maintainer: lab <lab@example.org>\nDescription: stand-in\n"
    )
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    out = root / "keyring.deb"
    subprocess.run(["dpkg-deb", "--build", str(tree), str(out)], check=True, capture_output=True)
    return out


PLACE = "usr/share/keyrings/cuda-archive-keyring.gpg"


@pytest.mark.parametrize("shape", ["plain", "lower", "spaced"])
def test_the_pinned_key_is_installed(
    tmp_path: Path, keys: dict[str, tuple[bytes, str]], shape: str
) -> None:
    content, fingerprint = keys["wanted"]
    text = {
        "plain": fingerprint,
        "lower": fingerprint.lower(),
        "spaced": " ".join(fingerprint[i : i + 4] for i in range(0, 40, 4)),
    }[shape]
    package = deb(tmp_path, {PLACE: content, "etc/apt/sources.list.d/cuda.list": b"deb http://x"})
    target = tmp_path / "target.gpg"
    assert KEY.main([str(package), str(target), "--fingerprint", text]) == 0
    assert target.read_bytes() == content
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert sorted(p.name for p in tmp_path.iterdir()) == ["keyring.deb", "target.gpg", "tree"]


@pytest.mark.parametrize("case", ["another", "both", "none", "elsewhere"])
def test_any_other_key_is_refused(
    tmp_path: Path,
    keys: dict[str, tuple[bytes, str]],
    case: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted, other = keys["wanted"][0], keys["other"][0]
    files = {
        "another": {PLACE: other},
        "both": {PLACE: wanted + other},
        "none": {"usr/share/doc/x": b"x"},
        "elsewhere": {"etc/apt/trusted.gpg.d/x.gpg": wanted},
    }[case]
    target = tmp_path / "target.gpg"
    target.write_bytes(b"old")
    package = deb(tmp_path, files)
    assert KEY.main([str(package), str(target), "--fingerprint", keys["wanted"][1]]) == 1
    assert target.read_bytes() == b"old"
    have = {
        "another": [keys["other"][1]],
        "both": sorted([keys["wanted"][1], keys["other"][1]]),
    }.get(case, [])
    assert capsys.readouterr().err == (
        f"{package}: its keys are {have}, not {keys['wanted'][1]}; the repository's key was "
        "replaced, compare the lock with NVIDIA's page\n"
    )


def test_the_right_one_of_two_keyrings_is_taken(
    tmp_path: Path, keys: dict[str, tuple[bytes, str]]
) -> None:
    files = {
        "usr/share/keyrings/a.gpg": keys["other"][0],
        "usr/share/keyrings/b.gpg": keys["wanted"][0],
    }
    target = tmp_path / "target.gpg"
    package = deb(tmp_path, files)
    assert KEY.main([str(package), str(target), "--fingerprint", keys["wanted"][1]]) == 0
    assert target.read_bytes() == keys["wanted"][0]


def test_gpg_leaves_the_users_own_keyring_alone(
    tmp_path: Path, keys: dict[str, tuple[bytes, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "k.gpg").write_bytes(keys["wanted"][0])
    assert KEY.fingerprints(tmp_path / "k.gpg") == [keys["wanted"][1]]
    assert list((tmp_path / "home").iterdir()) == []
