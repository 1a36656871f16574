"""The lab as tests use it: machines on a bridge with an upstream, gone when the block ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from . import docker_layer, docker_llama, limits, network, runs
from . import keys as ssh_keys
from .artifacts import Prepared, prepare
from .fleetfile import write_fleet
from .host import cache_dir, locked, require, say
from .identity import write_upstream
from .machine import Machine
from .records import Record, remove
from .setting import Bind, Setting
from .upstream import Upstream

ENDING = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Docker:
    """What labs with docker have beside the others: the engine's layer, and a registry folder."""

    layer: Path
    images: Path

    @classmethod
    def prepare(cls, prepared: Prepared) -> Docker:
        """Make what is missing. Hold the prepare lock."""
        return cls(docker_layer.prepare(prepared.base), docker_llama.prepare(prepared))


class Lab:
    """A running lab.

    + run_id: its name; everything it leaves on the host carries it
    + machines: spark-1, spark-2, …
    + upstream: what the machines fetch everything from
    """

    def __init__(
        self,
        record: Record,
        prepared: Prepared,
        binds: Sequence[Bind] = (),
        docker: Docker | None = None,
        fabric: int = 0,
    ) -> None:
        self.record = record
        self.run_id = record.run_id
        self.home = record.home
        self.prepared = prepared
        self.keys = ssh_keys.create(record.home / "keys")
        self.docker = docker
        self.upstream = Upstream(record, prepared, docker.images if docker else None)
        self.machines: list[Machine] = []
        compiler_cache = cache_dir() / "ccache"
        compiler_cache.mkdir(exist_ok=True)
        compiler_cache.chmod(0o777)
        shared = Bind(compiler_cache, "/var/cache/ccache", read_only=False)
        layer = docker.layer if docker else None
        self.setting = Setting(
            record, self.keys, prepared.base, (shared, *binds), self._furnish, layer, fabric
        )
        network.create_fabric(record, fabric)

    def _furnish(self, root: Path) -> None:
        key = self.prepared.debian.key.read_bytes()
        write_upstream(root, self.upstream.url, self.upstream.address, key)
        if self.docker:
            docker_layer.furnish(root, f"{self.upstream.address}:{self.upstream.port}")

    def add_machines(self, count: int) -> list[Machine]:
        """Boot more machines, all at once."""
        limits.make_room(len(self.machines) + count)
        new = [Machine(self.setting, len(self.machines) + number) for number in range(count)]
        for machine in new:
            machine.create()
            self.machines.append(machine)
        if new:
            with ThreadPoolExecutor(len(new)) as pool:
                list(pool.map(Machine.boot, new))
        return new

    def write_fleet(
        self,
        path: Path,
        serve: Mapping[str, Sequence[object]] | None = None,
        settings: Mapping[str, object] | None = None,
        per_machine: Mapping[str, Mapping[str, object]] | None = None,
        user: str = "spark",
        sudo_password_env: str | None = None,
        clusters: Mapping[str, object] | None = None,
    ) -> Path:
        """Write a sparks.yaml and the run's lock file beside it; see `fleetfile.write_fleet`."""
        return write_fleet(
            self, path, serve or {}, settings or {}, per_machine or {},
            user=user, sudo_password_env=sudo_password_env, clusters=clusters,
        )  # fmt: skip

    def stop(self) -> None:
        """Take everything down; also right when the start got only half way."""
        with uninterrupted():
            remove(self.record)


@contextmanager
def start_lab(
    machines: int = 2,
    *,
    name: str | None = None,
    binds: Sequence[Bind] = (),
    docker: bool = False,
    fabric: int = 0,
) -> Iterator[Lab]:
    """A lab that ends with the block, whatever ends the block: an error, Ctrl-C, SIGTERM.

    + docker: machines have a real docker engine, and the upstream is its registry
    + fabric: interfaces fab0, fab1 ... of each machine, half number n of all on a switch of its own

    **Raises**: `LabError` when the host lacks something, or a machine does not come up.
    """
    with signals_as_interrupt():
        record = None
        try:
            record, lab = _open(name, binds, owned=True, docker=docker, fabric=fabric)
            lab.add_machines(machines)
            yield lab
        finally:
            if record:
                with uninterrupted():
                    remove(record)


def leave_up(machines: int, name: str | None) -> Lab:
    """Start a lab that outlives this process; a failed start leaves nothing."""
    with signals_as_interrupt():
        _, lab = _open(name, (), owned=False)
        try:
            lab.add_machines(machines)
        except BaseException:
            lab.stop()
            raise
    return lab


def _open(
    name: str | None,
    binds: Sequence[Bind],
    owned: bool,
    docker: bool = False,
    fabric: int = 0,
) -> tuple[Record, Lab]:
    require()
    with locked(cache_dir() / "prepare.lock"):
        prepared = prepare()
        engine = Docker.prepare(prepared) if docker else None
    record = runs.open_run(name, owned)
    try:
        lab = Lab(record, prepared, binds, engine, fabric)
        lab.upstream.start()
    except BaseException:
        with uninterrupted():
            remove(record)
        raise
    say(f"run {record.run_id}: upstream {lab.upstream.url}, subnet {record.subnet}")
    return record, lab


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the program as Ctrl-C does, so that `finally` runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back impatient second signals while the lab is being taken down."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *ENDING})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
