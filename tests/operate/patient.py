"""The lab machine on which causes are provoked, and what is done to its one unit."""

from __future__ import annotations

import json
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import support
from tests.lab.lab import Lab
from tests.lab.machine import Machine
from tests.lab.pypi import prepare_wheels

HERE = Path(__file__).parent
RECIPE = "tiny-gpt-oss-llamacpp"
UNIT = f"llm-{RECIPE}.service"
DROPIN = f"/etc/systemd/system/{UNIT}.d/zz-fault.conf"
CACHE = f"/srv/sparkwright/cache/llm-{RECIPE}"
# openai_harmony and what it imports.
LIBRARIES = ("openai_harmony", "pydantic", "pydantic_core", "typing_extensions",
             "typing_inspection", "annotated_types")  # fmt: skip
FAKE = "ExecStartPre=/usr/bin/python3 /opt/fake/fake_vllm.py"
Found = set[tuple[str, str]]


class Patient:
    """A converged machine with one unit, and fakes in /opt/fake.

    + fleet: its sparks.yaml; the machine is the first one in it
    """

    def __init__(self, machine: Machine, fleet: Path) -> None:
        self.machine, self.fleet = machine, fleet
        self.root("mkdir -p /opt/fake/harmony")
        self._copy(HERE / "fakes", "/opt/fake")
        for name in LIBRARIES:
            (wheel,) = prepare_wheels().glob(f"{name}-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                self._unpack({n: archive.read(n) for n in archive.namelist()}, "/opt/fake/harmony")

    def root(self, command: str, check: bool = True) -> str:
        """Run a shell command as root; its output."""
        return self.machine.ssh(f"sudo sh -c {_quoted(command)}", check=check).stdout

    def _copy(self, folder: Path, target: str) -> None:
        files = [path for path in folder.iterdir() if path.suffix in (".py", ".sh")]
        self._unpack({path.name: path.read_bytes() for path in files}, target)

    def _unpack(self, files: Mapping[str, bytes], target: str) -> None:
        packed = BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(content), 0o755
                archive.addfile(info, BytesIO(content))
        place = self.machine.root / "opt/fakes.tar"
        place.write_bytes(packed.getvalue())
        self.root(f"tar -xf /opt/fakes.tar -C {target} --no-same-owner && rm /opt/fakes.tar")

    def doctor(self, *words: str, fleet: Path | None = None) -> Found:
        """(recipe or "", cause) of every finding on this machine."""
        name = self.machine.name
        done = support.sparkwright(
            fleet or self.fleet, "doctor", "--json", "--limit", name, *words
        )  # fmt: skip
        assert done.stdout, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        assert not said["unknown"], said["unknown"]
        assert done.returncode == (1 if said["findings"] else 0)
        assert all(one["fix"] and one["seen"] for one in said["findings"])
        return {(one["recipe"], one["cause"]) for one in said["findings"]}

    def restart(self) -> None:
        """Start the unit anew, with a fresh allowance of starts; whether it comes up or not."""
        self.root(f"systemctl daemon-reload; systemctl reset-failed {UNIT}; "
                  f"systemctl restart {UNIT}", check=False)  # fmt: skip

    def well(self) -> None:
        """Start it without faults; fails when it does not come up."""
        self.root(f"rm -f {DROPIN}; systemctl daemon-reload; systemctl reset-failed {UNIT}; "
                  f"systemctl restart {UNIT}")  # fmt: skip

    @contextmanager
    def dropin(self, *lines: str) -> Iterator[None]:
        """Run the unit with these lines in its [Service]."""
        text = "\n".join(("[Service]", *lines, ""))
        self.root(f"mkdir -p $(dirname {DROPIN}); cat >{DROPIN} <<'EOF'\n{text}EOF\n")
        try:
            self.restart()
            yield
        finally:
            self.well()

    def kernel(self, line: str) -> None:
        """Let journald read a line of the kernel's."""
        self.root(f"python3 /opt/fake/fake_kernel.py {_quoted(line)}")
        self.root("journalctl --sync")

    def forget(self) -> None:
        """Drop the journal; the unit starts anew, for what its start said is gone as well."""
        self.root("journalctl --rotate; sleep 1; journalctl -q --vacuum-time=1s")
        self.well()

    def cut(self) -> None:
        """Cut the power, and boot again."""
        self.root("journalctl --sync")
        self.machine.kill()
        self.machine.boot()
        self.up()

    def reboot(self) -> None:
        """Shut down in order, and boot again."""
        self.machine.power_off()
        self.machine.boot()
        self.up()

    def up(self) -> None:
        """Wait until the unit runs."""
        end = time.monotonic() + 60
        while self.root(f"systemctl is-active {UNIT}", check=False).strip() != "active":
            assert time.monotonic() < end, self.root(f"systemctl status {UNIT}", check=False)
            time.sleep(0.2)

    def beside(self, name: str, serve: Sequence[object]) -> Path:
        """A fleet file in which this machine serves more."""
        data = yaml.safe_load(self.fleet.read_text())
        data["recipes"].insert(0, str(HERE / "recipes"))
        data["sparks"][self.machine.name]["serve"] += list(serve)
        path = self.fleet.with_name(f"{name}.yaml")
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path


def _quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"


def converged(lab: Lab, folder: Path) -> Patient:
    """The first machine of a lab, converged with one recipe."""
    serve = {lab.machines[0].name: [RECIPE]}
    fleet = lab.write_fleet(folder / "sparks.yaml", serve, support.settings())
    support.converge(fleet)
    return Patient(lab.machines[0], fleet)
