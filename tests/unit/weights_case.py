"""One weights directory under test: the spec, the agent as a real process, and its answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.unit.hub_server import COMMIT, LFS_FROM, FakeHub, git_sha1, sha256

LIB = Path(__file__).parents[2] / "files/opt/sparkwright/lib"
AGENT = LIB / "weights.py"
REPO = "openai/gpt-oss-tiny"
# Shard sizes are odd on purpose: nothing may depend on round numbers.
FILES = {
    "config.json": b'{"model_type": "gpt_oss"}',
    "model-00000-of-00002.safetensors": bytes(range(256)) * 12000 + b"0",
    "model-00001-of-00002.safetensors": bytes(reversed(range(256))) * 9000 + b"1",
    "model-00002-of-00002.safetensors": b"spark" * 300_001,
    "original/model--00001-of-00007.safetensors": b"o" * 70_001,
    "metal/model.bin": b"m" * 50_001,
}
SHARDS = sorted(name for name in FILES if name.startswith("model-"))
UNWANTED = sorted(name for name in FILES if "/" in name)


def listing(files: dict[str, bytes]) -> list[dict[str, Any]]:
    """The wanted files as the spec lists them."""
    return [
        {"path": path, "size": len(data)}
        | ({"sha256": sha256(data)} if len(data) >= LFS_FROM else {"git_sha1": git_sha1(data)})
        for path, data in files.items()
    ]


class Case:
    """A directory, its spec and the agent."""

    def __init__(self, tmp: Path, hub: FakeHub) -> None:
        self.tmp = tmp
        self.hub = hub
        self.dir = tmp / "weights"
        self.wanted = {path: data for path, data in FILES.items() if path not in UNWANTED}
        self.spec: dict[str, Any] = {
            "dir": str(self.dir),
            "repo": REPO,
            "commit": COMMIT,
            "endpoint": hub.endpoint,
            "hub_python": sys.executable,
            "files": listing(self.wanted),
            "include": [],
            "exclude": ["original/*", "metal/*"],
            "license": "apache-2.0",
            "progress": str(tmp / "progress.json"),
            "retry_wait_s": 0.1,
        }

    def write_spec(self) -> str:
        path = self.tmp / "spec.json"
        path.write_text(json.dumps(self.spec))
        return str(path)

    def start(self, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, str(AGENT), "fetch", self.write_spec(), *words]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def fetch(self, *words: str, code: int = 0) -> str:
        """Run to the end; everything that the agent printed."""
        agent = self.start(*words)
        out, err = agent.communicate(timeout=120)
        assert agent.returncode == code, out + err
        return out + err

    def status(self, *words: str) -> dict[str, Any]:
        argv = [sys.executable, str(AGENT), "status", self.write_spec(), *words]
        answer = subprocess.run(argv, capture_output=True, text=True, check=True)
        value: dict[str, Any] = json.loads(answer.stdout)
        return value

    def progress(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.tmp / "progress.json").read_text())
        return value

    def assert_complete(self) -> None:
        for path, data in self.wanted.items():
            assert (self.dir / path).read_bytes() == data, path
        assert self.status()["ok"]
        assert not list(self.dir.rglob("*.incomplete"))


def wait_for(what: str, test: Any, seconds: float = 30) -> None:
    """Wait until `test()` is true."""
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)
