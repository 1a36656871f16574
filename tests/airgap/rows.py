"""Bad input that concerns machines: each is named, nothing breaks, and the old service runs on."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pysequoia
import yaml

from sparkwright.bundle_key import USER, have_key
from tests.airgap.place import PORTS, RECIPES, Site, mirror, slow
from tests.e2e import support
from tests.lab.machine import Machine

DATA = "/srv/sparkwright"
FULL = "/srv/small"


class Rows:
    """The rows on a converged machine whose service must not notice.

    + machine: spark-1, converged from the bundle
    """

    def __init__(self, site: Site, machine: Machine) -> None:
        self.site, self.machine = site, machine
        self.limit = ("--limit", machine.name)
        self.before = support.processes([machine])

    def run(self) -> list[str]:
        """Every row; names of those that failed, with why."""
        wrong = []
        for row in ROWS:
            name = row.__name__.replace("_", " ")
            try:
                row(self)
                self.unharmed()
                print(f"bad input, {name}: named", flush=True)
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
                print(f"bad input, {name}: WRONG: {error}", flush=True)
        return wrong

    def unharmed(self) -> None:
        """The service is the very process that it was, and answers."""
        assert support.processes([self.machine]) == self.before
        port, model = PORTS[self.machine.name]
        assert support.ask(self.machine, port, model).strip() == "SPARK"

    def refused(self, fleet: Path, *words: str, below: tuple[str, ...] = ()) -> str:
        """What a converge says that must fail."""
        done = support.sparkwright(fleet, "converge", *self.limit, *words, below=below)
        assert done.returncode == 2, f"rc {done.returncode}: {done.stdout[-1500:]}"
        return done.stdout + done.stderr

    def copy(self, name: str) -> Path:
        """A second bundle of hard links, for damage; files that are changed are copied first."""
        place = self.site.folder / name
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run(["cp", "-al", str(self.site.bundle), str(place)], check=True)
        return place

    def mend(self) -> None:
        """The next run with a good bundle goes on from there."""
        fleet = self.site.say_from("bundle", path=str(self.site.bundle))
        done = support.sparkwright(fleet, "converge", *self.limit)
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]

    def forget(self, pattern: str) -> None:
        """The machine loses files of its bundle, so that they have to come again."""
        self.machine.ssh(f"sudo rm -f {DATA}/bundle/{pattern}")


def own(path: Path) -> Path:
    """A copied bundle's file that may be changed without changing the original."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    return path


def a_tampered_file(rows: Rows) -> None:
    bad = rows.copy("tampered")
    path = own(next(bad.glob("files/tiktoken-o200k_base/*")))
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    rows.forget("files/tiktoken-o200k_base/*")
    fleet = rows.site.say_from("bundle", path=str(bad))
    said = rows.refused(fleet)
    assert "files/tiktoken-o200k_base/" in said, said[-1500:]
    assert "arrived with sha256" in said
    left = rows.machine.ssh(f"sudo ls {DATA}/bundle/files/tiktoken-o200k_base").stdout
    assert left == "", left
    rows.mend()


def a_truncated_file(rows: Rows) -> None:
    bad = rows.copy("truncated")
    path = own(next(bad.glob("wheels/*.whl")))
    path.write_bytes(path.read_bytes()[:100])
    said = rows.refused(rows.site.say_from("bundle", path=str(bad)))
    assert f"wheels/{path.name}: has 100 bytes" in said, said[-1500:]
    assert "Nothing was changed" in said


def a_missing_file(rows: Rows) -> None:
    bad = rows.copy("missing")
    path = next(bad.glob("files/llama.cpp-source/*"))
    path.unlink()
    said = rows.refused(rows.site.say_from("bundle", path=str(bad)))
    assert f"{path.name}: is missing" in said, said[-1500:]


def an_unfinished_bundle(rows: Rows) -> None:
    bad = rows.copy("unfinished")
    (bad / "MANIFEST.json").unlink()
    said = rows.refused(rows.site.say_from("bundle", path=str(bad)))
    assert "holds no finished bundle" in said, said[-1500:]


def another_architecture(rows: Rows) -> None:
    bad = rows.copy("foreign")
    path = own(bad / "MANIFEST.json")
    path.write_text(path.read_text().replace('"arch": "x86_64"', '"arch": "aarch64"'))
    said = rows.refused(rows.site.say_from("bundle", path=str(bad)))
    assert "was made for arch aarch64, the machine has x86_64" in said, said[-1500:]


def another_python(rows: Rows) -> None:
    bad = rows.copy("python")
    path = own(bad / "MANIFEST.json")
    path.write_text(path.read_text().replace('"python": "3.11"', '"python": "3.12"'))
    said = rows.refused(rows.site.say_from("bundle", path=str(bad)))
    assert "was made for python 3.12, the machine has 3.11" in said, said[-1500:]


def a_foreign_file(rows: Rows) -> None:
    """Verify names it, and no machine ever gets it."""
    bad = rows.copy("stranger")
    (bad / "wheels/stranger-1.0-py3-none-any.whl").write_bytes(b"who knows")
    fleet = rows.site.say_from("bundle", path=str(bad))
    done = support.sparkwright(fleet, "bundle", "verify", str(bad), "--fleet", str(fleet))
    assert done.returncode == 1, done.stdout[-1500:] + done.stderr[-1500:]
    assert (
        "wheels/stranger-1.0-py3-none-any.whl: does not belong to the bundle"
        in done.stdout + done.stderr
    )
    done = support.sparkwright(fleet, "converge", *rows.limit)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    assert "stranger" not in rows.machine.ssh(f"ls {DATA}/bundle/wheels").stdout


def a_foreign_wheel_in_place_of_another(rows: Rows) -> None:
    """As a wheel of another platform that was given the right one's name."""
    bad = rows.copy("swapped")
    path = next(bad.glob("wheels/*.whl"))
    size = path.stat().st_size
    path.unlink()
    path.write_bytes(b"PK" + b"x" * (size - 2))
    rows.forget(f"wheels/{path.name}")
    said = rows.refused(rows.site.say_from("bundle", path=str(bad)))
    assert f"wheels/{path.name}" in said, said[-1500:]
    assert "arrived with sha256" in said
    rows.mend()


def a_recipe_newer_than_the_lock(rows: Rows) -> None:
    fleet = rows.site.say_from("bundle", path=str(rows.site.bundle))
    data = yaml.safe_load(fleet.read_text())
    place = rows.site.folder / "newer-recipes"
    place.mkdir()
    (name,) = RECIPES[rows.machine.name]
    text = next(
        Path(p, f"{name}.yaml") for p in data["recipes"] if Path(p, f"{name}.yaml").exists()
    )
    (place / f"{name}.yaml").write_text(text.read_text().replace("revision: main", "revision: v2"))
    data["recipes"].insert(0, str(place))
    fleet.write_text(yaml.safe_dump(data))
    said = rows.refused(fleet)
    assert "@v2: the lock holds no commit and file list for it" in said, said[-1500:]
    assert "Nothing was changed" in said


def an_older_lock(rows: Rows) -> None:
    fleet = rows.site.say_from("bundle", path=str(rows.site.bundle))
    data = yaml.safe_load(fleet.read_text())
    lock = Path(data["artifacts"]["lock"])
    data["artifacts"]["lock"] = str(lock.with_name("newer.lock.yaml"))
    Path(data["artifacts"]["lock"]).write_text(lock.read_text() + "# newer\n")
    fleet.write_text(yaml.safe_dump(data))
    said = rows.refused(fleet)
    assert "was made from another newer.lock.yaml" in said, said[-1500:]


def another_key(rows: Rows) -> None:
    key = rows.site.folder / "bundle-key.asc"
    kept = key.read_bytes()
    try:
        key.unlink()
        have_key(key)
        said = rows.refused(rows.site.say_from("bundle", path=str(rows.site.bundle)))
        assert "apt/" in said, said[-1500:]
        assert "Nothing was changed" in said
    finally:
        key.write_bytes(kept)


def an_expired_key(rows: Rows) -> None:
    """The bundle is signed with a key that lasts a day, and the laptop's clock is two days on."""
    key = rows.site.folder / "bundle-key.asc"
    kept = key.read_bytes()
    bad = rows.copy("expired")
    profile = pysequoia.Profile.RFC4880
    try:
        made = pysequoia.Tsk.generate(USER, profile=profile, validity_seconds=86_400)
        key.write_text(str(made))
        rows.site.command("bundle", str(bad), "--fleet", str(rows.site.fleet))
        ends = made.extract_certificate().expiration
        for fleet in (
            rows.site.say_from("bundle", path=str(bad)),
            rows.site.say_from("mirror", url="http://192.0.2.1:8095"),
        ):
            said = rows.refused(fleet, below=("faketime", "-f", "+2d"))
            assert f"the key expired {ends:%Y-%m-%d}" in said, said[-1500:]
            assert "Nothing was changed" in said
    finally:
        key.write_bytes(kept)


def a_full_disk(rows: Rows) -> None:
    """data_dir on a small file system: first refused by its size, then full in the middle."""
    machine = rows.machine
    machine.ssh(f"sudo mkdir -p {FULL} && sudo mount -t tmpfs -o size=40m tmpfs {FULL}")
    try:
        fleet = rows.site.say_from("bundle", path=str(rows.site.bundle))
        words = ("--data", f"data_dir={FULL}", "--data", "min_free_gib=0")
        said = rows.refused(fleet, *words)
        assert "nothing was sent" in said, said[-1500:]
    finally:
        machine.ssh(f"sudo umount {FULL}")


def full_in_the_middle(rows: Rows) -> None:
    """Something else fills the disk while the push writes."""
    machine, place = rows.machine, f"{DATA}/bundle/.sparkwright/incoming"
    rows.forget("files/llama.cpp-source/*")
    machine.ssh(f"sudo mount -t tmpfs -o size=2m,uid=$(id -u) tmpfs {place}")
    try:
        said = rows.refused(rows.site.say_from("bundle", path=str(rows.site.bundle)))
        assert "files/llama.cpp-source/" in said, said[-1500:]
        assert "disk is full" in said
    finally:
        machine.ssh(f"sudo umount {place}")
    rows.mend()


def two_pushes_at_once(rows: Rows) -> None:
    machine = rows.machine
    rows.forget("files/llama.cpp-source/*")
    lock = f"{DATA}/bundle/.sparkwright/incoming/lock"
    holder = subprocess.Popen([*machine.ssh_argv(), f"flock {lock} sleep 100"])
    try:
        time.sleep(1)
        said = rows.refused(rows.site.say_from("bundle", path=str(rows.site.bundle)))
        assert "another push to this machine is under way" in said, said[-1500:]
    finally:
        machine.ssh("pkill -u spark -x sleep")
        holder.wait()
    rows.mend()


def a_cut_push(rows: Rows) -> None:
    """The cable is pulled while a file travels; the next run sends the rest."""
    machine, fleet = rows.machine, rows.site.say_from("bundle", path=str(rows.site.bundle))
    rows.forget("files/llama.cpp-source/*")
    source = next(rows.site.bundle.glob("files/llama.cpp-source/*"))
    with slow(machine):
        run = subprocess.Popen([support.PROGRAM, "converge", *rows.limit], cwd=support.PROJECT,
                               env=rows.site.environment(fleet), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)  # fmt: skip
        part = f"sudo stat -c %s {DATA}/bundle/.sparkwright/incoming/*.part"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            size = machine.ssh(part, check=False).stdout.strip()
            if size.isdigit() and int(size) > 2 * 10**6:
                break
            time.sleep(0.2)
        run.terminate()
        said = run.communicate()[0]
    assert size.isdigit(), f"no part: {said[-1500:]}"
    kept = settled(machine, part)
    summary = support.sparkwright(fleet, "converge", *rows.limit)
    assert summary.returncode == 0, summary.stdout + summary.stderr[-1500:]
    were = f"{kept / 1e6:.1f} MB were there"
    assert were in summary.stderr, f"{were}: {summary.stderr[-1500:]}"
    assert kept < source.stat().st_size


def settled(machine: Machine, part: str) -> int:
    """Bytes of the part once the sender has seen that its run is gone."""
    sizes = [-1]
    while len(sizes) < 3 or len(set(sizes[-3:])) > 1:
        sizes.append(int(machine.ssh(part).stdout))
        time.sleep(1)
    return sizes[-1]


def a_clock_years_behind(rows: Rows) -> None:
    """The laptop's clock is moved: all machines here have the host's."""
    fleet = rows.site.say_from("bundle", path=str(rows.site.bundle))
    said = rows.refused(fleet, below=("faketime", "-f", "+3y"))
    assert "behind the laptop" in said, said[-1500:]
    assert "clock" in said


@contextmanager
def faulty(rows: Rows, fault: str, port: int) -> Iterator[Path]:
    """A fleet file with a mirror that has a fault."""
    words = ("-m", "tests.airgap.bad_server", fault)
    with mirror(rows.site, rows.site.bundle, port, *words) as url:
        yield rows.site.say_from("mirror", url=url)


def a_mirror_with_a_login_page(rows: Rows) -> None:
    with faulty(rows, "page", 8091) as fleet:
        said = rows.refused(fleet)
    assert "a web page came instead of the file" in said, said[-1500:]
    assert "mirror http://" in said


def a_mirror_that_lacks_a_file(rows: Rows) -> None:
    rows.machine.ssh(f"sudo rm -r {DATA}/tiktoken")
    with faulty(rows, "missing:tiktoken", 8092) as fleet:
        said = rows.refused(fleet)
    assert "files/tiktoken-o200k_base/" in said, said[-1500:]
    assert "404" in said
    rows.mend()


def a_mirror_that_drops(rows: Rows) -> None:
    rows.machine.ssh(f"sudo rm -r {DATA}/tiktoken")
    with faulty(rows, "drops", 8093) as fleet:
        said = rows.refused(fleet)
    assert "files/tiktoken-o200k_base/" in said, said[-1500:]
    assert "the connection ended" in said
    rows.mend()


def no_mirror_at_all(rows: Rows) -> None:
    address = rows.site.lab.upstream.address
    said = rows.refused(rows.site.say_from("mirror", url=f"http://{address}:8094"))
    assert "does not answer this machine" in said, said[-1500:]


ROWS: tuple[Callable[[Rows], None], ...] = (
    a_tampered_file,
    a_truncated_file,
    a_missing_file,
    an_unfinished_bundle,
    a_foreign_file,
    a_foreign_wheel_in_place_of_another,
    another_architecture,
    another_python,
    an_older_lock,
    a_recipe_newer_than_the_lock,
    another_key,
    an_expired_key,
    a_full_disk,
    full_in_the_middle,
    two_pushes_at_once,
    a_cut_push,
    a_clock_years_behind,
    a_mirror_with_a_login_page,
    a_mirror_that_lacks_a_file,
    a_mirror_that_drops,
    no_mirror_at_all,
)
