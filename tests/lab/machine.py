"""One lab machine: a copy-on-write root, a network namespace, and systemd as its PID 1."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from . import cgroups, docker_layer, identity, network
from .host import LabError, remove_tree, run, say
from .records import Process, read_pidfile
from .setting import Setting

SPAWN = Path(__file__).with_name("spawn.sh")
# docker: its own file system's folder, for overlay2 does not lie on an overlay (empty without it).
FOLDERS = ("upper", "work", "root", "docker")
BOOT_TIMEOUT_S = 60  # a boot takes 1 to 3 s; 8 at once took 8.4 s on a loaded 2-core machine


class Machine:
    """A machine of the lab, reached by SSH like any other."""

    def __init__(self, setting: Setting, index: int) -> None:
        self.setting = setting
        self.index = index
        self.name = f"spark-{index + 1}"
        self.address = network.address(setting.record, 11 + index)
        self.home = setting.record.home / "machines" / self.name
        self.failed_units: list[str] = []
        self.groups = cgroups.names(setting.record.tag, index)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """Its root file system as the host sees it, on or off."""
        return self.home / "root"

    @property
    def process(self) -> Process | None:
        """Its systemd-nspawn while it runs."""
        process = read_pidfile(self.home / "nspawn.pid")
        return process if process and process.alive else None

    def create(self) -> None:
        """Plug the cable in and lay a fresh root."""
        network.plug_in(self.setting.record, self.index, self.address)
        network.plug_fabric(self.setting.record, self.index, self.setting.fabric)
        record = self.setting.record
        record.cgroups += map(str, self.groups)
        record.save()
        for group in self.groups:
            group.mkdir()
        self._lay_root()

    def _lay_root(self) -> None:
        for folder in FOLDERS:
            (self.home / folder).mkdir(parents=True)
        layer = f"{self.setting.layer}:" if self.setting.layer else ""
        lower = f"lowerdir={layer}{self.setting.base}"
        options = f"{lower},upperdir={self.home}/upper,workdir={self.home}/work"
        run("mount", "-t", "overlay", "sparkwright-lab", "-o", options, self.root)
        identity.write(
            self.root, self.setting.record.run_id, self.name, self.address, self.setting.keys
        )
        self.setting.furnish(self.root)

    def boot(self) -> None:
        """Start it and wait until systemd has settled and SSH answers.

        Units that failed are in `failed_units` and reported; that is no error of the lab.

        **Raises**: `LabError` with the end of the console when it does not come up.
        """
        self.start()
        self.wait_ready()

    def start(self) -> None:
        """Start it without waiting."""
        if self.process:
            raise LabError(f"{self.name}: it is running already")
        self.home.joinpath("nspawn.pid").unlink(missing_ok=True)
        network.power_on_fabric(self.setting.record, self.index, self.setting.fabric)
        # network: /proc/sys/net is this machine's own and may be written, the rest is the host's
        # (private-sysctl covers it inside).
        env = {
            "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
            "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
        }
        with (self.home / "console.log").open("ab") as console:
            self._child = subprocess.Popen(
                [
                    SPAWN, self.home / "nspawn.pid", ":".join(map(str, self.groups)),
                    *self._nspawn(),
                ],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                env={**os.environ, **env}, start_new_session=True,
            )  # fmt: skip

    def _nspawn(self) -> list[str]:
        namespace = network.names(self.setting.record, self.index)[0]
        words = [
            "systemd-nspawn", "--quiet", f"--directory={self.root}", "--boot", "--register=no",
            "--keep-unit", f"--network-namespace-path=/run/netns/{namespace}",
            "--capability=all", "--system-call-filter=add_key keyctl bpf",
            f"--hostname={self.name}", "--console=read-only", "--resolv-conf=off",
            "--timezone=off", "--link-journal=no",
        ]  # fmt: skip
        for bind in self.setting.binds:
            option = "--bind-ro" if bind.read_only else "--bind"
            words.append(f"{option}={bind.source}:{bind.target}")
        if self.setting.layer:
            words.append(f"--bind={self.home}/docker:{docker_layer.DATA}")
        return words

    def wait_ready(self) -> None:
        """Wait until SSH answers and systemd has finished starting, degraded included."""
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while time.monotonic() < deadline:
            state = self._state()
            if state in ("running", "degraded"):
                self.failed_units = self._failed() if state == "degraded" else []
                return
            if not self._starting():
                break
            time.sleep(0.1)
        tail = (self.home / "console.log").read_text(errors="replace")[-2000:]
        raise LabError(f"{self.name}: not up after {BOOT_TIMEOUT_S} s\n{tail}")

    def _starting(self) -> bool:
        """Whether the launch is still under way or done, that is, it has not given up."""
        return self._child is None or self._child.poll() is None

    def _state(self) -> str:
        done = self.ssh("systemctl is-system-running --wait", check=False)
        return done.stdout.strip()

    def _failed(self) -> list[str]:
        lines = self.ssh("systemctl --failed --plain --no-legend").stdout.splitlines()
        units = [line.split()[0] for line in lines]
        say(f"{self.name}: failed units: {' '.join(units)}")
        return units

    def ssh_argv(self, user: str = "spark") -> list[str]:
        """The ssh command that reaches it; host keys are checked."""
        return self.setting.keys.ssh_argv(user, self.address)

    def ssh(
        self,
        cmd: str,
        user: str = "spark",
        check: bool = True,
        input: str | None = None,
        timeout: float = 600,
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on it.

        **Raises**: `LabError` with its output when it fails and `check` is set.
        """
        return run(*self.ssh_argv(user), cmd, stdin=input, check=check, timeout=timeout)

    def power_off(self) -> None:
        """Shut it down in order; its root stays."""
        process = self.process
        if process is None:
            return
        # SIGTERM makes nspawn ask PID 1 for an orderly halt, also when the cable is pulled.
        process.end(signal.SIGTERM, wait=60)
        self._reap()

    def _reap(self) -> None:
        """Collect the exit status when this very program started it."""
        if self._child:
            self._child.wait()
            self._child = None

    def kill(self) -> None:
        """Cut its power: everything in it ends at once, its root stays as it is."""
        for group in self.groups:
            cgroups.kill(group)
        self._reap()

    def reset(self) -> None:
        """Make it new: power cut, empty disk, cable in, boot."""
        self.kill()
        run("umount", self.root)
        for folder in FOLDERS:
            remove_tree(self.home / folder)
        self._lay_root()
        self.link_up()
        self.boot()

    def link_down(self) -> None:
        """Pull its cable."""
        network.set_cable(self.setting.record, self.index, "down")

    def fabric_down(self, half: int) -> None:
        """Pull half number `half` of its fabric cable."""
        network.set_fabric_cable(self.setting.record, self.index, half, "down")

    def fabric_up(self, half: int) -> None:
        """Put that half back."""
        network.set_fabric_cable(self.setting.record, self.index, half, "up")

    def link_up(self) -> None:
        """Put its cable back."""
        network.set_cable(self.setting.record, self.index, "up")
