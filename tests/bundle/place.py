"""A small fleet with its lock and upstream: something of every kind that a bundle can hold."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
from pathlib import Path
from typing import Any

import yaml

from sparkwright import site
from sparkwright.artifacts import load_lock
from sparkwright.bundle_fill import Filling, Options
from sparkwright.bundle_images import Blobs
from sparkwright.bundle_inputs import Inputs, read_inputs
from sparkwright.bundle_key import NAME, have_key
from sparkwright.bundle_lock import held
from sparkwright.bundle_verify import verify
from sparkwright.needs_parts import base_packages
from tests.bundle.server import Server
from tests.unit.hub_server import git_sha1
from tests.unit.wheel_maker import make_wheel

COMMIT = "c" * 40
ARM = "cp312-cp312-manylinux_2_28_aarch64"
SETTINGS = {"cuda_required": False}


def data_of(name: str, size: int = 3000) -> bytes:
    """Bytes that no compression makes small; the same for the same name."""
    return random.Random(name).randbytes(size)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Place:
    """A directory with sparks.yaml, recipes and lock, and what upstream has for it."""

    def __init__(self, top: Path, server: Server) -> None:
        self.top, self.server = top, server
        self.bundle = top / "bundle"
        self.said: list[str] = []
        (top / "recipes").mkdir()
        self.lock: dict[str, Any] = {
            "format": 1, "hub": server.url, "artifacts": {}, "snapshots": {},
        }  # fmt: skip
        self.serve: list[object] = ["model", "page"]
        self.settings: dict[str, Any] = dict(SETTINGS)
        self._files()
        self._wheels()
        self._debs()
        self._hub()
        self._image()
        self.write()

    def write(self) -> None:
        """Write fleet and lock as they are now."""
        (self.top / "artifacts.lock.yaml").write_text(yaml.safe_dump(self.lock))
        spark = {"address": "192.0.2.1", "serve": self.serve}
        fleet = {"defaults": {"settings": self.settings}, "sparks": {"spark-1": spark}}
        (self.top / "sparks.yaml").write_text(yaml.safe_dump(fleet))
        load_lock(self.top / "artifacts.lock.yaml")

    def upstream(self, path: str, data: bytes) -> dict[str, Any]:
        """Serve a file; its entry in a lock."""
        self.server.files[path] = data
        return {"url": f"{self.server.url}{path}", "size": len(data), "sha256": sha256(data)}

    def _files(self) -> None:
        artifacts = self.lock["artifacts"]
        source = {"version": "b1", "commit": "a" * 40, "build_number": 1}
        artifacts["llama.cpp-source"] = {
            "kind": "archive", **source,
            **self.upstream("/src/b1.tar.gz", data_of("llama", 90_000)),
        }  # fmt: skip
        artifacts["tiktoken-o200k_base"] = {
            "kind": "file", "plain_name": "o200k_base.tiktoken", "sha1_name": "f" * 40,
            **self.upstream("/vocab/o200k_base.tiktoken", data_of("o200k")),
        }  # fmt: skip

    def _wheels(self) -> None:
        """alpha wants beta on Linux, gamma on Windows; beta is compiled."""
        made = self.top / "made"
        needs = ["beta==2.0", 'gamma==3.0; sys_platform == "win32"']
        self.alpha = make_wheel(made, "alpha", "1.0", {"alpha.py": "A = 1"}, needs)
        self.beta = make_wheel(made, "beta", "2.0", {"beta.so": data_of("arm")}, tag=ARM)
        x86 = "cp312-cp312-manylinux_2_28_x86_64"
        self.x86 = make_wheel(made, "beta", "2.0", {"beta.so": data_of("x86")}, tag=x86)
        old = ARM.replace("312", "311")
        self.cp311 = make_wheel(made, "beta", "2.0", {"beta.so": data_of("311")}, tag=old)
        self.server.put_wheels(self.alpha, self.beta, self.x86, self.cp311)
        hashes = [sha256(path.read_bytes()) for path in (self.beta, self.x86, self.cp311)]
        lines = [
            "# made by hand",
            f"alpha==1.0 --hash=sha256:{sha256(self.alpha.read_bytes())}",
            " \\\n    ".join(["beta==2.0", *(f"--hash=sha256:{h}" for h in hashes)]),
            f"gamma==3.0 ; sys_platform == 'win32' --hash=sha256:{'0' * 64}",
        ]
        self.requirements("\n".join(lines) + "\n")

    def requirements(self, text: str) -> None:
        """The hub client's wheel set."""
        (self.top / "hub-client.txt").write_text(text)
        self.lock["artifacts"]["hub-client"] = {
            "kind": "wheels", "requirements": "hub-client.txt", "sha256": sha256(text.encode()),
        }  # fmt: skip

    def _debs(self) -> None:
        """Every base package, one dependency of all of them, and a status that has libc6."""
        (self.top / "debs").mkdir()
        names = [*base_packages(), "libshared1"]
        self.listing = "\n".join(self.paragraph(name) for name in sorted(names))
        status = (
            "Package: libc6\nStatus: install ok installed\nArchitecture: arm64\nVersion: 2.39\n"
        )
        (self.top / "debs/u.status").write_text(status)
        self.list_debs()

    def paragraph(self, name: str, version: str = "1:1.0-1", depends: str = "") -> str:
        """One package of the listing, served at its address."""
        data = data_of(name)
        file = f"{name}_{version.split(':')[-1]}_arm64.deb"
        self.server.files[f"/pool/{file}"] = data
        wants = depends or ("libc6 (>= 2.38)" if name == "libshared1" else "libshared1 (>= 1.0)")
        return (
            f"Package: {name}\nVersion: {version}\nArchitecture: arm64\nDepends: {wants}\n"
            f"Filename: pool/{file}\nSize: {len(data)}\nSHA256: {sha256(data)}\n"
            f"Url: {self.server.url}/pool/{file}\n"
        )

    def list_debs(self) -> None:
        """Write the listing and its entry."""
        (self.top / "debs/u.packages").write_text(self.listing)
        self.lock["artifacts"]["debs-ubuntu-24.04-arm64"] = {
            "kind": "debs", "listing": "debs/u.packages", "status": "debs/u.status",
            "sha256": sha256(self.listing.encode()),
        }  # fmt: skip

    def _hub(self) -> None:
        files = {
            "m-Q4.gguf": data_of("q4", 200_000),
            "m-Q8.gguf": data_of("q8"),
            "README.md": b"# A model\n",
        }
        rows = []
        for path, data in files.items():
            self.server.files[f"/lab/m/resolve/{COMMIT}/{path}"] = data
            proof = (
                {"git_sha1": git_sha1(data)} if path == "README.md" else {"sha256": sha256(data)}
            )
            rows.append({"path": path, "size": len(data), **proof})
        snapshot = {"repo": "lab/m", "revision": "main", "commit": COMMIT, "license": "mit"}
        self.lock["snapshots"]["lab/m@main"] = {**snapshot, "files": rows}
        recipe = {
            "engine": "llama.cpp", "description": "a model", "port": 8081, "memory_gib": 10,
            "context": 4096, "acceptance": {"question": "2+2?", "expect": "4"},
            "weights": {"repo": "lab/m", "revision": "main", "license": "mit",
                        "include": ["*Q4.gguf", "README.md"]},
        }  # fmt: skip
        (self.top / "recipes/model.yaml").write_text(yaml.safe_dump(recipe))

    def _image(self) -> None:
        """An image of two layers in a registry on the same port."""
        layers = [gzip.compress(data_of(f"layer{n}", 20_000), mtime=0) for n in range(2)]
        config = json.dumps({"architecture": "arm64", "os": "linux"}).encode()
        blobs = [config, *layers]
        for blob in blobs:
            self.server.files[f"/v2/lab/page/blobs/sha256:{sha256(blob)}"] = blob
        described = [{"digest": f"sha256:{sha256(b)}", "size": len(b)} for b in blobs]
        kind = "application/vnd.oci.image.manifest.v1+json"
        value = {"mediaType": kind, "config": described[0], "layers": described[1:]}
        manifest = json.dumps({"schemaVersion": 2, **value}).encode()
        digest = f"sha256:{sha256(manifest)}"
        self.server.files[f"/v2/lab/page/manifests/{digest}"] = manifest
        self.server.kinds[f"/v2/lab/page/manifests/{digest}"] = kind
        self.layers = [sha256(layer) for layer in layers]
        self.lock["artifacts"]["page"] = {
            "kind": "image", "ref": f"{self.server.host}/lab/page", "digest": digest,
            "platform": "linux/arm64", "size": sum(map(len, blobs)) + len(manifest),
            "image_id": f"sha256:{sha256(config)}", "tag": "1",
        }  # fmt: skip
        recipe = {
            "engine": "container", "description": "a page", "port": 8090, "memory_gib": 1,
            "container": {"image": "page", "serves": "web"}, "acceptance": {"expect": "page"},
        }  # fmt: skip
        (self.top / "recipes/page.yaml").write_text(yaml.safe_dump(recipe))

    @property
    def key(self) -> Path:
        return self.top / NAME

    def inputs(self) -> Inputs:
        site._lock.cache_clear()  # one program reads one lock; a test changes it
        site._recipes.cache_clear()
        return read_inputs(self.top / "sparks.yaml")

    def fill(self, **changes: Any) -> Filling:
        """Fill the bundle; what was said is in `said`. Raises as Filling does."""
        inputs = self.inputs()
        options = Options(
            lock_text=inputs.lock.path.read_bytes(),
            key=have_key(self.key),
            registry=Blobs(plain=(self.server.host,)),
            tell=self.said.append,
            **changes,
        )
        with held(self.bundle):
            filling = Filling(self.bundle, inputs.needs, inputs.debs, options)
            filling.run()
        return filling

    def verify(self, fast: bool = False) -> list[str]:
        """What verify says, without the bundle's own path."""
        lines = verify(self.bundle, self.inputs(), self.key, fast, self.said.append)
        return [re.sub(rf"^{self.bundle}(?=[/:])", "B", line) for line in lines]
