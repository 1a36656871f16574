"""Repositories, recipes and questions of the tests on downloads that go wrong."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e import support
from tests.e2e.refusing import Bench, Fault
from tests.lab.machine import Machine

SHARD_SIZE = 3_000_000
SHARDS = tuple(f"noise-{number:05d}-of-00003.gguf" for number in (1, 2, 3))
WEIGHTS = "/srv/sparkwright/weights/sparkwright-lab"


@dataclass
class Hub:
    """A machine that has everything but the weights, and what the lab's hub was asked."""

    bench: Bench
    names: int = 0

    @property
    def machine(self) -> Machine:
        return self.bench.one

    def repository(self, *folders: str, gated: bool = False) -> str:
        """A new repository of this run: three shards of noise, and files in further folders."""
        self.names += 1
        name = f"noise-{self.names}"
        place = self.bench.lab.upstream.hub_dir / "sparkwright-lab" / name
        place.mkdir(parents=True)
        (place / "README.md").write_text("---\nlicense: mit\n---\nNoise for tests, no model.\n")
        for path in [*SHARDS, *[f"{folder}/model.bin" for folder in folders]]:
            (place / path).parent.mkdir(exist_ok=True)
            (place / path).write_bytes(random.Random(f"{name}/{path}").randbytes(SHARD_SIZE))
        if gated:
            (place / ".gated").touch()
        return name

    def remove(self, name: str) -> None:
        """The repository is gone from the hub; locks that name it stay."""
        shutil.rmtree(self.bench.lab.upstream.hub_dir / "sparkwright-lab" / name)

    def fleet(
        self, name: str, settings: Mapping[str, object] | None = None, **more: object
    ) -> Path:
        """A fleet whose machine holds the repository on standby: noise cannot be loaded."""
        weights = {"repo": f"sparkwright-lab/{name}", "license": "mit", **more}
        entry = {"recipe": name, "state": "standby"}
        return self.bench.fleet(
            Fault(settings=settings or {}, recipes={name: {"weights": weights, "port": 9100}}),
            Fault(fleet=lambda fleet: fleet["sparks"]["spark-1"].update(serve=[entry])),
        )

    @contextmanager
    def asked(self, name: str) -> Iterator[list[str]]:
        """Paths below the repository that were asked for by GET in the block, in order."""
        access = self.bench.lab.upstream.access
        seen, found = len(access()), list[str]()
        yield found
        for row in access()[seen:]:
            path = str(row["path"])
            if row["method"] == "GET" and f"/{name}/resolve/" in path:
                found.append(path.split("/resolve/")[1].split("/", 1)[1])

    def held(self, name: str) -> list[str]:
        """Finished files of the repository on the machine."""
        listing = f"cd {WEIGHTS}/{name}/*/ && find . -name '*.gguf' -printf '%P\\n' | sort"
        return self.machine.ssh(listing).stdout.split()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 300  # a first converge may come before
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.2)


@contextmanager
def in_background(fleet: Path, *words: str, patience_s: int = 300) -> Iterator[Callable[[], str]]:
    """A converge that runs beside the block; the function waits for its end and gives its text.

    + words: further options; patience_s: seconds to wait for its end
    """
    outputs: list[str] = []

    def work() -> None:
        done = support.sparkwright(fleet, "converge", *words)
        outputs.append(f"rc {done.returncode}\n{done.stdout}{done.stderr}")

    thread = threading.Thread(target=work)
    thread.start()

    def result() -> str:
        thread.join(timeout=patience_s)
        return outputs[0]

    try:
        yield result
    finally:
        thread.join(timeout=patience_s)
