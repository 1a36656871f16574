"""A library: a directory that systemd mounts on the machine, which holds a bundle's hub/ tree.

The mount is a read-only bind of another directory of the machine, by a .mount and an .automount
unit, as a share of a NAS would be mounted. It stands in for NFS and CIFS, which need kernel modules
of their own: that a share gives other inodes after a mount is a unit test.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.airgap.place import PORTS, Site
from tests.e2e import support
from tests.lab.machine import Machine

NAS, MOUNT = "/srv/nas", "/mnt/models"
UNITS = {
    "mnt-models.mount": f"[Mount]\nWhat={NAS}\nWhere={MOUNT}\nType=none\nOptions=bind,ro\n",
    "mnt-models.automount": f"[Automount]\nWhere={MOUNT}\n[Install]\nWantedBy=local-fs.target\n",
}
WEIGHTS = "/srv/sparkwright/weights"


class Shelf:
    """A converged machine that gets a library.

    + url: of the mirror, which has everything as well
    """

    def __init__(self, site: Site, machine: Machine, url: str) -> None:
        self.site, self.machine = site, machine
        self.port, self.model = PORTS[machine.name]
        self.fleet = site.say_from("mirror", url=url, library=MOUNT)
        self.copying = self._changed("copying", library_copy=True)
        bundle = {"from": "bundle", "path": str(site.bundle), "url": None}
        self.pushed = self._changed("pushed", **bundle)
        self.unit = machine.ssh("cd /etc/systemd/system; ls llm-*.service").stdout.strip()
        self.gguf = self._fill()

    def _changed(self, name: str, **artifacts: object) -> Path:
        """The fleet with other words; None takes one away."""
        data = yaml.safe_load(self.fleet.read_text())
        words = {**data["artifacts"], **artifacts}
        data["artifacts"] = {key: value for key, value in words.items() if value is not None}
        path = self.fleet.with_name(f"library-{name}.yaml")
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path

    def _fill(self) -> str:
        """Put the bundle's hub/ on the machine's NAS; the model's path below it."""
        names = [path.relative_to(self.site.bundle) for path in self.site.bundle.glob("hub/**/*")]
        models = [str(name) for name in names if name.suffix == ".gguf"]
        (wanted,) = [name for name in models if self.model in name]
        tar = ["tar", "-C", str(self.site.bundle), "-cf", "-", "hub"]
        remote = f"sudo mkdir -p {NAS} {MOUNT} && sudo tar -xf - -C {NAS}"
        with subprocess.Popen(tar, stdout=subprocess.PIPE) as child:
            subprocess.run([*self.machine.ssh_argv(), remote], stdin=child.stdout, check=True)
        for name, text in UNITS.items():
            self.machine.ssh(f"sudo tee /etc/systemd/system/{name} >/dev/null", input=text)
        self.root("systemctl daemon-reload && systemctl enable --now --quiet mnt-models.automount")
        return wanted

    def root(self, command: str, check: bool = True) -> str:
        """A shell command as root."""
        done = self.machine.ssh("sudo sh -s", input=command, check=check)
        return done.stdout.strip()

    def converge(self, fleet: Path | None = None) -> str:
        """A converge that must succeed; everything that the user saw."""
        words = ("converge", "--limit", self.machine.name)
        done = support.sparkwright(fleet or self.fleet, *words)
        assert done.returncode == 0, done.stdout[-2500:] + done.stderr[-2500:]
        assert support.ask(self.machine, self.port, self.model).strip() == "SPARK"
        return done.stdout + done.stderr

    def again(self, fleet: Path | None = None) -> None:
        """A second run changes nothing."""
        words = ("--limit", self.machine.name)
        summary = support.converge(fleet or self.fleet, *words)
        assert summary["changed"] == 0, summary["changes"]

    def links(self) -> str:
        """Where the model's name among the weights leads to; "" for a file of its own."""
        return self.root(f"find {WEIGHTS} -name '*.gguf' -type l -printf %l")

    def stopped(self) -> None:
        """Nothing uses the mount, and it is gone."""
        self.root(f"systemctl stop {self.unit} mnt-models.automount mnt-models.mount")
        assert self.root(f"findmnt {MOUNT}", check=False) == ""

    def refused(self, fleet: Path) -> str:
        """What a converge says that must fail."""
        done = support.sparkwright(fleet, "converge", "--limit", self.machine.name)
        assert done.returncode == 2, done.stdout[-2500:]
        return done.stdout + done.stderr

    def spoil(self) -> str:
        """One byte of the model on the NAS is another one; its path as the machine has it."""
        path = f"{NAS}/{self.gguf}"
        self.root(f"printf X | dd of={path} bs=1 seek=5000 conv=notrunc status=none")
        return f"{MOUNT}/{self.gguf}"

    def restore(self) -> None:
        """The NAS has the right model."""
        good = (self.site.bundle / self.gguf).read_bytes()
        copy = [*self.machine.ssh_argv(), f"sudo tee {NAS}/{self.gguf} >/dev/null"]
        subprocess.run(copy, input=good, check=True)

    def forget(self) -> None:
        """The machine has no weights."""
        self.root(f"systemctl stop {self.unit}; rm -rf {WEIGHTS}/*")


def used_in_place(shelf: Shelf) -> None:
    """Weights stay in the library, which nobody writes to; the unit wants its mount."""
    shelf.forget()
    before = shelf.root(f"find {NAS} -printf '%p %T@ %C@\\n' | sort")
    shelf.converge()
    assert shelf.links() == f"{MOUNT}/{shelf.gguf}", shelf.links()
    wants = shelf.root(f"systemctl show -P RequiresMountsFor {shelf.unit}").split()
    assert any(path.startswith(f"{MOUNT}/hub/") for path in wants), wants
    assert shelf.root(f"find {NAS} -printf '%p %T@ %C@\\n' | sort") == before
    shelf.again()


def the_unit_brings_the_mount(shelf: Shelf) -> None:
    """Neither mounted nor watched by an automount: the unit's start mounts it."""
    shelf.stopped()
    shelf.root(f"systemctl start {shelf.unit}")
    assert shelf.root(f"findmnt -no OPTIONS {MOUNT}").startswith("ro")
    shelf.converge()  # it asks the question of this start
    shelf.again()


def an_automount_is_enough(shelf: Shelf) -> None:
    """Watched and not mounted: preflight's look and the unit's start both mount it."""
    shelf.stopped()
    shelf.root("systemctl start mnt-models.automount")
    assert "autofs" in shelf.root(f"findmnt -no FSTYPE {MOUNT}")
    shelf.root(f"systemctl start {shelf.unit}")
    shelf.converge()
    shelf.again()
    assert shelf.root(f"findmnt -no FSTYPE {MOUNT}").count("\n") == 1


def beside_a_bundle(shelf: Shelf) -> None:
    """What the library has is not pushed."""
    shelf.forget()
    shelf.converge(shelf.pushed)
    assert shelf.links() == f"{MOUNT}/{shelf.gguf}", shelf.links()
    assert shelf.root("ls /srv/sparkwright/bundle").split().count("hub") == 0
    shelf.again(shelf.pushed)


def a_bad_file_beside_a_bundle(shelf: Shelf) -> None:
    """It is named; the next run pushes that file and serves it."""
    bad = shelf.spoil()
    said = shelf.refused(shelf.pushed)
    assert f"{bad} has another hash than sha256:" in said, said[-2500:]
    shelf.converge(shelf.pushed)
    assert shelf.links() == ""
    assert shelf.root(f"ls /srv/sparkwright/bundle/{shelf.gguf}")
    shelf.again(shelf.pushed)
    shelf.restore()
    shelf.forget()
    shelf.converge()
    assert shelf.links() == f"{MOUNT}/{shelf.gguf}", shelf.links()


def a_bad_file(shelf: Shelf) -> None:
    """It is named, never used, and comes from the mirror; the next runs say so again."""
    bad = shelf.spoil()
    said = shelf.converge()
    assert f"{bad} has another hash than sha256:" in said, said[-2500:]
    assert shelf.links() == ""
    assert "hub" not in shelf.root(f"systemctl show -P RequiresMountsFor {shelf.unit}")
    said = shelf.converge()
    assert f"{bad}: has another hash" in said, said[-2500:]
    shelf.again()


def a_missing_mount(shelf: Shelf) -> None:
    """Refused in preflight; the service runs on."""
    shelf.root("systemctl stop mnt-models.automount mnt-models.mount")
    before = support.processes([shelf.machine])
    said = shelf.refused(shelf.fleet)
    assert f"library {MOUNT}: is an empty directory: nothing is mounted there" in said, said
    assert "Nothing was changed" in said
    assert support.processes([shelf.machine]) == before
    shelf.root("systemctl start mnt-models.automount")


def a_missing_snapshot(shelf: Shelf) -> None:
    """The library has others: this one comes from the mirror."""
    shelf.forget()
    shelf.root(f"mv {NAS}/{shelf.gguf} {NAS}/kept.gguf")
    shelf.converge()
    assert shelf.links() == ""
    shelf.again()


def a_local_copy(shelf: Shelf) -> None:
    """With library_copy the machine has a file of its own, which came from the library."""
    shelf.forget()
    shelf.restore()
    shelf.converge(shelf.copying)
    assert shelf.links() == ""
    shelf.again(shelf.copying)
    shelf.stopped()
    shelf.root(f"systemctl start {shelf.unit}")
    assert support.ask(shelf.machine, shelf.port, shelf.model).strip() == "SPARK"


ROWS: tuple[Callable[[Shelf], None], ...] = (
    used_in_place,
    the_unit_brings_the_mount,
    an_automount_is_enough,
    beside_a_bundle,
    a_bad_file_beside_a_bundle,
    a_bad_file,
    a_missing_mount,
    a_missing_snapshot,
    a_local_copy,
)


def prove(site: Site, machine: Machine, url: str) -> tuple[int, int]:
    """(rows that went wrong, rows); each is printed."""
    shelf = Shelf(site, machine, url)
    wrong = 0
    for row in ROWS:
        name = row.__name__.replace("_", " ")
        try:
            row(shelf)
            print(f"library, {name}: ok", flush=True)
        except AssertionError as error:
            wrong += 1
            print(f"library, {name}: WRONG: {error}", flush=True)
    return wrong, len(ROWS)
