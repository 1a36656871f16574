"""The registry resolver against a small registry: tokens, indexes, platforms, lies."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sparkwright.errors import SparkwrightError
from sparkwright.registry import Found, Registry, cuda_min

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
NAME = "lab/vllm"


def packed(value: object) -> bytes:
    return json.dumps(value).encode()


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves what the test laid down, to those with the token when one is wanted."""

    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.seen.append((path, query, self.headers.get("Authorization")))
        wants = self.server.token and path.startswith("/v2/")
        if path == "/token":
            self._send(200, packed({"token": self.server.token}), "application/json")
        elif wants and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            realm = f"http://{self.headers['Host']}/token"
            told = f'Bearer realm="{realm}",service="reg",scope="repository:{NAME}:pull"'
            self._send(401, b"{}", "application/json", told)
        elif path in self.server.paths:
            kind, body = self.server.paths[path]
            self._send(200, body, kind)
        else:
            self._send(404, b"{}", "application/json")

    def _send(self, status: int, body: bytes, kind: str, challenge: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """A registry on this computer.

    + paths: path -> media type and body; seen: what was asked; token: None for an open one
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.paths: dict[str, tuple[str, bytes]] = {}
        self.seen: list[tuple[str, str, str | None]] = []
        self.token: str | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def ref(self) -> str:
        return f"{self.host}/{NAME}"

    def registry(self) -> Registry:
        return Registry(plain=(self.host,))

    def image(self, arch: str, env: list[str], tag: str = "") -> tuple[str, int]:
        """Lay down an image; its digest and the bytes of a pull."""
        config = packed({"os": "linux", "architecture": arch, "config": {"Env": env}})
        layers = [{"digest": sha(arch.encode()), "size": 1000}, {"digest": sha(b""), "size": 7}]
        manifest = packed(
            {"config": {"digest": sha(config), "size": len(config)}, "layers": layers}
        )
        self.paths[f"/v2/{NAME}/blobs/{sha(config)}"] = ("application/octet-stream", config)
        for name in filter(None, (sha(manifest), tag)):
            self.paths[f"/v2/{NAME}/manifests/{name}"] = (MANIFEST, manifest)
        return sha(manifest), 1007 + len(config) + len(manifest)

    def index(self, tag: str, *entries: tuple[str, str]) -> None:
        manifests = [
            {"digest": digest, "platform": {"os": os, "architecture": arch}}
            for digest, (os, arch) in ((digest, words.split("/")) for digest, words in entries)
        ]
        body = packed({"manifests": manifests})
        self.paths[f"/v2/{NAME}/manifests/{tag}"] = (INDEX, body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()


def find(server: Server, tag: str = "v1", platform: str = "linux/arm64") -> Found:
    return server.registry().find(server.ref, tag, platform)


def test_an_index_gives_the_image_of_the_platform(server: Server) -> None:
    arm, size = server.image("arm64", ["A=1", "NVIDIA_REQUIRE_CUDA=cuda>=13.0 brand=x,driver>=535"])
    amd, _ = server.image("amd64", [])
    server.index("v1", (amd, "linux/amd64"), (arm, "linux/arm64"), (amd, "unknown/unknown"))
    found = find(server)
    assert (found.digest, found.size, found.cuda_min) == (arm, size, "13.0")
    assert find(server, platform="linux/amd64").digest == amd


def test_a_single_image_is_taken_for_its_own_platform_only(server: Server) -> None:
    arm, _ = server.image("arm64", [], tag="v1")
    assert find(server).digest == arm
    assert find(server, tag=arm).cuda_min is None
    with pytest.raises(SparkwrightError, match="is for linux/arm64, not linux/amd64"):
        find(server, platform="linux/amd64")


def test_a_token_is_fetched_where_the_registry_says(server: Server) -> None:
    server.token = "secret"
    arm, _ = server.image("arm64", [], tag="v1")
    assert find(server).digest == arm
    asked = [(path, query) for path, query, _ in server.seen]
    assert asked[1] == (
        "/token",
        f"service=reg&scope=repository%3A{NAME.replace('/', '%2F')}%3Apull",
    )
    assert [auth for path, _, auth in server.seen if path == "/token"] == [None]
    assert len([path for path, _ in asked if path == "/token"]) == 1


@pytest.mark.parametrize(
    ("lay", "told"),
    [
        (lambda s: None, "answered 404; check the name and the tag"),
        (lambda s: s.index("v1", ("sha256:1", "linux/amd64")),
         "0 images for linux/arm64; it has linux/amd64"),
        (lambda s: s.index("v1", ("sha256:1", "linux/arm64"), ("sha256:2", "linux/arm64")),
         "2 images for linux/arm64"),
        (lambda s: s.paths.update({f"/v2/{NAME}/manifests/v1": (INDEX, b"<html>")}),
         "answered no JSON object; is a proxy"),
        (lambda s: s.paths.update({f"/v2/{NAME}/manifests/v1": ("text/html", b"{}")}),
         "is a text/html, no image"),
    ],
)  # fmt: skip
def test_nothing_is_guessed(server: Server, lay: Any, told: str) -> None:
    lay(server)
    with pytest.raises(SparkwrightError) as error:
        find(server)
    assert told in str(error.value)


def test_a_manifest_and_a_configuration_that_are_not_what_was_named(server: Server) -> None:
    arm, _ = server.image("arm64", [])
    server.index("v1", (arm, "linux/arm64"))
    path = f"/v2/{NAME}/manifests/{arm}"
    kind, body = server.paths[path]
    server.paths[path] = (kind, body + b" ")
    with pytest.raises(SparkwrightError, match=f"its manifest is not {arm}"):
        find(server)
    server.paths[path] = (kind, body)
    blob = f"/v2/{NAME}/blobs/{json.loads(body)['config']['digest']}"
    server.paths[blob] = ("x", b"{}")
    with pytest.raises(SparkwrightError, match="its configuration is not sha256:"):
        find(server)


def test_a_registry_that_is_not_there(server: Server) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(SparkwrightError, match="cannot be reached"):
        find(server)


@pytest.mark.parametrize(
    ("env", "version"),
    [
        (["NVIDIA_REQUIRE_CUDA=cuda>=12.9 brand=tesla,driver>=550,driver<551"], "12.9"),
        (["NVIDIA_REQUIRE_CUDA=arch>=75,cuda>=13.0"], "13.0"),
        (["NVIDIA_REQUIRE_CUDA=brand=tesla,driver>=550"], None),
        (["PATH=/bin"], None),
        ([], None),
    ],
)
def test_the_cuda_that_an_image_wants(env: list[str], version: str | None) -> None:
    assert cuda_min(env) == version
