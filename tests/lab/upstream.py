"""The upstream as tests use it: where it is, how to make it misbehave, what it was asked for."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

from . import network
from .artifacts import Prepared
from .host import PROJECT, LabError
from .records import Record, read_pidfile

SPAWN = Path(__file__).with_name("spawn.sh")
START_TIMEOUT_S = 60  # it listens within about 0.3 s; the rest is for a loaded computer


class Upstream:
    """One HTTP server on the bridge's address.

    + address, port, url: where the machines reach it; `url` is also the Hub's endpoint
    + hub_dir: repositories `<org>/<name>/` of this run only; they win over the cache's
    + files_dir: files of this run only, served below /files/
    + wheels_dir: wheels of this run only, in the same index as the cache's
    + registry_dir: container images of this run only; they win over the cache's
    """

    def __init__(self, record: Record, prepared: Prepared, images: Path | None = None) -> None:
        self.prepared = prepared
        self.images = images
        self.home = record.home / "upstream"
        self.hub_dir = self.home / "hub"
        self.files_dir = self.home / "files"
        self.wheels_dir = self.home / "wheels"
        self.registry_dir = self.home / "registry"
        for folder in (self.hub_dir, self.files_dir, self.wheels_dir, self.registry_dir):
            folder.mkdir(parents=True)
        self.address = network.address(record, 1)
        self.port = _free_port(self.address)
        self.url = f"http://{self.address}:{self.port}"
        self._control = secrets.token_hex(16)
        self._rules: list[dict[str, object]] = []
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def hub_folders(self) -> list[Path]:
        """Where repositories are looked for, in order."""
        return [self.hub_dir, self.prepared.hub]

    def start(self) -> None:
        """Start the process and wait until it listens.

        **Raises**: `LabError` with what it printed when it does not.
        """
        path = self.home / "config.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(self._config()))
        pidfile = self.home / "server.pid"
        server = [sys.executable, "-m", "tests.lab.upstream_server", str(path)]
        with (self.home / "server.log").open("ab") as output:
            self._child = subprocess.Popen(
                [SPAWN, pidfile, "", *server],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)},
            )  # fmt: skip
        self._wait(pidfile)

    def _config(self) -> dict[str, object]:
        """What `upstream_server.Config` holds."""
        prepared = self.prepared
        return {
            "address": self.address,
            "port": self.port,
            "control": self._control,
            "log": str(self.home / "access.jsonl"),
            "folders": {
                "/apt/debian/": str(prepared.debian.folder),
                "/apt/cuda/": str(prepared.cuda.folder),
                "/apt-cuda-bad/": str(prepared.cuda_bad.folder),
                "/archives/": str(prepared.llama.folder),
                "/vocab/": str(prepared.vocab.parent),
                "/wheels/": str(prepared.wheels),
                "/files/": str(self.files_dir),
                "/run-wheels/": str(self.wheels_dir),
                "/run-images/": str(self.registry_dir),
                **({"/images/": str(self.images)} if self.images else {}),
            },
            "hub": [str(folder) for folder in self.hub_folders],
            "wheels": ["/wheels/", "/run-wheels/"],
            "registries": [str(path) for path in (self.registry_dir, self.images) if path],
        }

    def _wait(self, pidfile: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            process = read_pidfile(pidfile)
            if process and not process.alive:
                break
            try:
                socket.create_connection((self.address, self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        output = (self.home / "server.log").read_text()[-2000:]
        raise LabError(f"upstream {self.url}: does not answer\n{output}")

    def set(self, path_glob: str, **rule: object) -> None:
        """Make GETs of matching paths misbehave from now on; `replies.Rule` names the ways."""
        self._rules.append({"glob": path_glob, **rule})
        self._post()

    def clear(self) -> None:
        """Behave again."""
        self._rules = []
        self._post()

    def _post(self) -> None:
        connection = http.client.HTTPConnection(self.address, self.port, timeout=10)
        headers = {"X-Lab-Control": self._control}
        connection.request("POST", "/_lab/rules", json.dumps(self._rules), headers)
        status = connection.getresponse().status
        connection.close()
        if status != 200:
            raise LabError(f"upstream {self.url}: the control call answered {status}")

    def access(self) -> list[dict[str, object]]:
        """Every request that has ended, oldest first: method, path, status, bytes, range, …."""
        path = self.home / "access.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def sent(self, path_glob: str) -> int:
        """Bytes of bodies sent so far for matching paths."""

        return sum(
            int(str(entry["bytes"]))
            for entry in self.access()
            if fnmatchcase(str(entry["path"]), path_glob)
        )


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
