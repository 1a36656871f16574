"""Files and directories: what counts as drift, and commands that are run for real through sh."""

from __future__ import annotations

import base64
import getpass
import grp
import hashlib
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from sparkwright.resources import (
    TEMPORARY,
    Absent,
    Command,
    Directory,
    Fetched,
    File,
    Resource,
    State,
    quote,
    write_file,
)
from tests.unit.machine_case import program

USER = getpass.getuser()
GROUP = grp.getgrgid(os.getgid()).gr_name
PROBE = program("probe")
SHA = hashlib.sha256(b"text\n").hexdigest()
NAMES = [
    "plain",
    "with space",
    "single'quote",
    'double"quote',
    "dollar$HOME`id`",
    "new\nline",
    "back\\slash",
    "*?[glob]",
    "-dash",
    "ünïcode",
    "semi;colon&&touch x",
]


def sh(command: Command, umask: int = 0o022, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command.shell],
        input=command.stdin,
        capture_output=True,
        text=True,
        umask=umask,
        env={**os.environ, **env},
        check=False,
    )


def states(resource: Resource) -> list[State]:
    """Answers of the real probe."""
    return [PROBE.answer(spec) for spec in resource.probes()]


def converge(resource: Resource) -> None:
    """Mend for real; then there must be nothing left."""
    seen = states(resource)
    assert resource.drift(seen)
    for command in resource.fix(seen):
        done = sh(command)
        assert done.returncode == 0, done.stderr
    assert resource.drift(states(resource)) == []


@pytest.mark.parametrize("name", NAMES)
def test_write_file_takes_every_name(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    command = write_file(str(place / name), b"x", USER, GROUP, "0640")
    done = sh(command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in place.iterdir()] == [name]
    assert (place / name).read_bytes() == b"x"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("content", [b"", b"\0\xff\r\n", bytes(range(256)) * 500, b"no newline"])
def test_write_file_is_exact_for_every_byte(tmp_path: Path, content: bytes) -> None:
    assert sh(write_file(f"{tmp_path}/f", content, USER, GROUP, "0644")).returncode == 0
    assert (tmp_path / "f").read_bytes() == content


def test_write_file_shows_no_content_in_the_command() -> None:
    command = write_file("/x/f", b"top-secret", "root", "root", "0600")
    assert "top-secret" not in command.shell
    assert base64.b64encode(b"top-secret").decode() not in command.shell
    assert base64.b64decode(command.stdin or "") == b"top-secret"


@pytest.mark.parametrize("mode", ["0600", "0640", "0644", "0755"])
@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_write_file_gives_the_mode_whatever_the_umask(
    tmp_path: Path, umask: int, mode: str
) -> None:
    assert sh(write_file(f"{tmp_path}/f", b"x", USER, GROUP, mode), umask).returncode == 0
    assert f"{stat.S_IMODE((tmp_path / 'f').stat().st_mode):04o}" == mode


def fake_tools(tmp_path: Path, **scripts: str) -> str:
    """A PATH whose first directory holds these shell scripts."""
    tools = tmp_path / "fake_tools"
    tools.mkdir()
    for name, text in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    return f"{tools}:{os.environ['PATH']}"


def test_write_file_is_private_from_the_first_byte(tmp_path: Path) -> None:
    """While the content is written, nobody else can read it, even when the umask allows it."""
    place = tmp_path / "place"
    place.mkdir()
    seen = tmp_path / "seen"
    # Stands before chown: the file is whole then, and has not got its final owner and mode yet.
    look = f'stat -c "%a %s" {place}/.sparkwright.* >{seen}'
    path = fake_tools(tmp_path, chown=f'{look}; exec /usr/bin/env -i /bin/chown "$@"')
    done = sh(write_file(f"{place}/f", b"secret", USER, GROUP, "0644"), 0o000, PATH=path)
    assert done.returncode == 0, done.stderr
    assert seen.read_text() == "600 6\n"


def test_write_file_leaves_nothing_when_the_content_is_cut(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    good = write_file(f"{tmp_path}/f", b"new" * 1000, USER, GROUP, "0644")
    assert sh(Command(good.shell, "bmV3!!! not base64")).returncode != 0
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


def test_write_file_takes_no_half_content_for_whole(tmp_path: Path) -> None:
    """A laptop that dies in the middle ends the input early, at a place that base64 accepts."""
    (tmp_path / "f").write_bytes(b"old")
    good = write_file(f"{tmp_path}/f", b"new" * 1000, USER, GROUP, "0644")
    done = sh(Command(good.shell, (good.stdin or "")[:400]))
    assert done.returncode != 0
    assert f"{tmp_path}/f: not written" in done.stderr
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("f", b"old")]


def test_write_file_does_not_wait_for_an_end_that_never_comes(tmp_path: Path) -> None:
    """A pulled cable: everything came, but nobody closes the input."""
    good = write_file(f"{tmp_path}/f", b"new", USER, GROUP, "0644")
    with subprocess.Popen(["sh", "-c", good.shell], stdin=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        writer.stdin.write(good.stdin or "")
        writer.stdin.flush()
        assert writer.wait(30) == 0
    assert (tmp_path / "f").read_bytes() == b"new"


def test_write_file_leaves_nothing_when_it_is_hung_up(tmp_path: Path) -> None:
    good = write_file(f"{tmp_path}/f", b"new", USER, GROUP, "0644")
    writer = subprocess.Popen(
        ["sh", "-c", good.shell], stdin=subprocess.PIPE, start_new_session=True
    )
    while not list(tmp_path.glob(f"{TEMPORARY}*")):
        time.sleep(0.01)
    time.sleep(0.1)  # the traps are set by now
    os.killpg(writer.pid, signal.SIGHUP)
    assert writer.wait(30) != 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("tool", ["chown", "chmod", "sync", "mv"])
def test_write_file_leaves_nothing_when_a_step_fails(tmp_path: Path, tool: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "f").write_bytes(b"old")
    path = fake_tools(tmp_path, **{tool: "exit 1"})
    done = sh(write_file(f"{place}/f", b"new", USER, GROUP, "0644"), PATH=path)
    assert done.returncode != 0
    assert [(p.name, p.read_bytes()) for p in place.iterdir()] == [("f", b"old")]


def test_write_file_fails_without_its_directory(tmp_path: Path) -> None:
    done = sh(write_file(f"{tmp_path}/none/f", b"x", USER, GROUP, "0644"))
    assert done.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_write_file_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("target")
    (tmp_path / "f").symlink_to(tmp_path / "target")
    assert sh(write_file(f"{tmp_path}/f", b"x", USER, GROUP, "0644")).returncode == 0
    assert not (tmp_path / "f").is_symlink()
    assert (tmp_path / "target").read_text() == "target"


def test_write_file_does_not_move_into_a_directory(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    assert sh(write_file(f"{tmp_path}/f", b"x", USER, GROUP, "0644")).returncode != 0
    assert list((tmp_path / "f").iterdir()) == []


def test_quote_keeps_words_apart() -> None:
    words = ["a b", "$x", "'", "", "\n"]
    done = sh(Command(f"printf '<%s>' {quote(*words)}"))
    assert done.stdout == "<a b><$x><'><><\n>"


@pytest.mark.parametrize("name", NAMES)
def test_every_resource_converges_at_every_name(tmp_path: Path, name: str) -> None:
    place = str(tmp_path / name)
    converge(Directory(place, USER, GROUP, "0750"))
    converge(File(f"{place}/{name}", "text\n", USER, GROUP, "0640"))
    converge(Absent(f"{place}/{name}"))
    assert list((tmp_path / name).iterdir()) == []


@pytest.mark.parametrize("damage", ["content", "mode", "link", "gone", "cut"])
def test_a_damaged_file_is_mended(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "f"
    wanted = File(str(path), "text\n", USER, GROUP, "0644")
    converge(wanted)
    match damage:
        case "content":
            path.write_text("texT\n")
        case "mode":
            path.chmod(0o666)
        case "cut":
            path.write_text("")
        case "link":
            path.rename(tmp_path / "moved")
            path.symlink_to(tmp_path / "moved")
        case "gone":
            path.unlink()
    converge(wanted)
    assert path.read_text() == "text\n"


@pytest.mark.parametrize("bits", [0o700, 0o2755, 0o4755, 0o1777, 0o777])
def test_a_directory_gets_exactly_its_mode(tmp_path: Path, bits: int) -> None:
    """chmod leaves setgid of a directory alone when it is given four digits."""
    path = tmp_path / "d"
    path.mkdir()
    path.chmod(bits)
    assert stat.S_IMODE(path.stat().st_mode) == bits
    converge(Directory(str(path), USER, GROUP, "0755"))
    converge(Directory(str(path), USER, GROUP, "2750"))


OWN = {"owner": "root", "group": "root", "mode": "0644"}
ROWS: list[tuple[Resource, State, list[str]]] = [
    (File("/f", "text\n"), {"type": "file", **OWN, "sha256": SHA}, []),
    (File("/f", "text\n"), {"type": "missing"}, ["/f: missing, not a file"]),
    (File("/f", "text\n"), {"type": "dir"}, ["/f: dir, not a file"]),
    (File("/f", "text\n"), {"error": "PermissionError"}, ["/f: unreadable, not a file"]),
    (
        File("/f", "text\n"),
        {"type": "file", **OWN, "sha256": "0", "owner": "spark", "mode": "0666"},
        ["/f: content differs, owner is spark, not root, mode is 0666, not 0644"],
    ),
    (Directory("/d"), {"type": "dir", **OWN, "mode": "0755"}, []),
    (Directory("/d"), {"type": "link"}, ["/d: link, not a directory"]),
    (Directory("/d"), {"type": "dir", **OWN}, ["/d: mode is 0644, not 0755"]),
    (Directory("/d"), {}, ["/d: unreadable, not a directory"]),
    (Absent("/f"), {"type": "missing"}, []),
    (Absent("/f"), {"type": "file"}, ["/f: is still there"]),
    (Absent("/f"), {"error": "PermissionError"}, ["/f: is still there"]),
    (Fetched("/f", "http://x/f", SHA), {"type": "file", **OWN, "sha256": SHA}, []),
    (Fetched("/f", "http://x/f", SHA), {"type": "missing"}, ["/f: missing, not a file"]),
    (
        Fetched("/f", "http://x/f", SHA),
        {"type": "file", **OWN, "sha256": "0"},
        [f"/f: sha256 is 0, not {SHA}"],
    ),
]


@pytest.mark.parametrize(("resource", "state", "wanted"), ROWS)
def test_drift_says_what_differs(resource: Resource, state: State, wanted: list[str]) -> None:
    assert resource.drift([state]) == wanted


def test_a_file_does_not_show_its_content() -> None:
    assert "secret" not in repr(File("/f", "secret"))


def test_a_fetched_file_is_fetched_with_its_hash_and_size() -> None:
    wanted = Fetched("/srv/a b", "http://x/a?b&c", SHA, 7)
    fetch, own = (command.shell for command in wanted.fix([{"type": "missing"}]))
    assert fetch == (
        "python3 /opt/sparkwright/lib/fetch.py 'http://x/a?b&c' '/srv/a b' "
        f"--sha256 {SHA} --size 7 --mode 0644"
    )
    assert own == "chown root:root '/srv/a b' && chmod 0644 '/srv/a b'"


def test_a_link_is_removed_before_the_file_is_fetched() -> None:
    """fetch.py follows it: a link to a right file would count as right, and stay a link."""
    wanted = Fetched("/f", "http://x/f", SHA)
    assert wanted.fix([{"type": "link", "target": "/g"}])[0].shell.startswith("rm -f /f && python3")
    assert wanted.fix([{"type": "file"}])[0].shell.startswith("python3 ")


def test_a_fetched_file_of_the_right_hash_is_not_fetched_again() -> None:
    state = {"type": "file", **OWN, "mode": "0600", "sha256": SHA}
    wanted = Fetched("/f", "http://x/f", SHA)
    assert wanted.drift([state]) == ["/f: mode is 0600, not 0644"]
    assert [command.shell for command in wanted.fix([state])] == [
        "chown root:root /f && chmod 0644 /f"
    ]
