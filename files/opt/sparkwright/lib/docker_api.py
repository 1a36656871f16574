"""Docker's engine over its socket: fetch an image with progress, look at one.

The engine's API rather than the command: it counts bytes, and its errors are JSON. What is used
here has been there since API 1.24 (docs.docker.com/reference/api/engine, Image).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

SOCKET = "/var/run/docker.sock"
# Seconds until the first byte of an export, which is written to a disk before (our choice).
SAVE_S = 900.0
CREDENTIALS = Path("/root/.docker/config.json")
# Told after each event: bytes that came, and what happens now.
Tell = Callable[[int, str], None]


class DockerError(Exception):
    """The engine refused or did not answer; the message is for the user."""


class _Local(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__("docker", timeout=timeout_s, blocksize=1 << 20)

    def connect(self) -> None:
        """Connect to the engine."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(SOCKET)


def _call(
    method: str, path: str, timeout_s: float, body: Any = None, headers: Any = None
) -> http.client.HTTPResponse:
    """One request. Raises DockerError for a refusal, OSError when nobody answers."""
    link = _Local(timeout_s)
    link.request(method, path, body, headers or {})
    answer = link.getresponse()
    if answer.status >= 400:
        raw = answer.read().decode(errors="replace").strip()
        with contextlib.suppress(ValueError, KeyError, TypeError):  # its words, whatever the form
            raw = json.loads(raw)["message"]
        raise DockerError(raw)
    return answer


def inspect(name: str, timeout_s: float = 60) -> dict[str, Any] | None:
    """What the engine knows of an image; None when it has none of the name."""
    try:
        path = f"/images/{urllib.parse.quote(name, safe='/:@')}/json"
        answer: dict[str, Any] = json.loads(_call("GET", path, timeout_s).read())
    except DockerError as error:
        if "o such image" in str(error):
            return None
        raise
    return answer


def pull(name: str, platform: str, stall_s: float, tell: Tell) -> None:
    """Fetch `repository@sha256:…`. Raises DockerError, OSError.

    + stall_s: no event for so long is a stall
    """
    repository, digest = name.split("@")
    query = urllib.parse.urlencode({"fromImage": repository, "tag": digest, "platform": platform})
    headers = {}
    if auth := credentials(repository):
        headers["X-Registry-Auth"] = auth
    answer = _call("POST", f"/images/create?{query}", stall_s, headers=headers)
    layers: dict[str, int] = {}
    for event in _events(answer, stall_s):
        status, place = str(event.get("status", "")), str(event.get("id", ""))
        current = (event.get("progressDetail") or {}).get("current", 0)
        if status == "Downloading":
            layers[place] = max(layers.get(place, 0), current)
        tell(sum(layers.values()), "unpacking" if status == "Extracting" else "pulling")


def load(path: Path, stall_s: float, tell: Tell) -> str:
    """Hand an archive to the engine; returns the name or id that it gives. Raises as pull()."""
    with path.open("rb") as file:
        return _loaded(_Counted(file, tell), {"Content-Length": str(path.stat().st_size)}, stall_s)


def load_tree(top: Path, stall_s: float, tell: Tell) -> str:
    """The same with what `save` gave, unpacked."""
    words = ["tar", "--create", "--directory", str(top), "."]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as tar:
        if tar.stdout is None:
            raise DockerError("tar gives nothing")
        name = _loaded(_Counted(tar.stdout, tell), {}, stall_s)
    if tar.returncode:
        raise DockerError(f"tar ended with status {tar.returncode}")
    return name


def save(image: str) -> http.client.HTTPResponse:
    """An image as a tar of its layers, configuration and names. Raises DockerError, OSError.

    Beside the engine's own progress there is nothing to hear for as long as it prepares.
    """
    return _call("GET", f"/images/{urllib.parse.quote(image, safe=':')}/get", SAVE_S)


def root() -> str:
    """The directory where the engine keeps images, and works. Raises DockerError, OSError."""
    return str(_info()["DockerRootDir"])


def containerd() -> bool:
    """Whether containerd keeps the images (seen with Docker 26.1.5). Raises as root()."""
    status = _info().get("DriverStatus") or []
    return ["driver-type", "io.containerd.snapshotter.v1"] in status


def _info() -> dict[str, Any]:
    info: dict[str, Any] = json.loads(_call("GET", "/info", 60).read())
    return info


def _loaded(content: _Counted, headers: dict[str, str], stall_s: float) -> str:
    headers = {"Content-Type": "application/x-tar", **headers}
    answer = _call("POST", "/images/load?quiet=1", stall_s, content, headers)
    text = "".join(str(event.get("stream", "")) for event in _events(answer, stall_s))
    names = [line.split(": ", 1)[1] for line in text.splitlines() if line.startswith("Loaded ")]
    if len(names) != 1:
        raise DockerError(f"{len(names)} images are in the archive, one is wanted: {text.strip()}")
    return names[0].strip()


class _Counted:
    """A file that says how far it was read."""

    def __init__(self, file: IO[bytes], tell: Tell) -> None:
        self._file, self._tell, self._done = file, tell, 0

    def read(self, size: int = -1) -> bytes:
        """The next piece."""
        piece = self._file.read(size)
        self._done += len(piece)
        self._tell(self._done, "loading")
        return piece


def _events(answer: http.client.HTTPResponse, stall_s: float) -> Iterator[dict[str, Any]]:
    """The JSON lines of a long answer; its error becomes DockerError."""
    try:
        for raw in answer:
            event = json.loads(raw) if raw.strip() else {}
            if "error" in event:
                raise DockerError(str(event["error"]))
            yield event
    except TimeoutError as error:
        raise DockerError(f"no byte and no step for {stall_s:g} s") from error


def credentials(repository: str, place: Path = CREDENTIALS) -> str:
    """What `docker login` as root left for the registry, as the API wants it; "" for none.

    A helper's credentials are not asked for: images that need one are pulled by hand.
    """
    try:
        known = json.loads(place.read_text())["auths"]
    except (OSError, ValueError, KeyError):
        return ""
    host = repository.split("/", 1)[0]
    key = "https://index.docker.io/v1/" if host == "docker.io" else host
    packed = known.get(key, {}).get("auth", "")
    return _encoded(packed, key) if packed else ""


def _encoded(packed: str, host: str) -> str:
    import base64  # here: most pulls are anonymous

    user, _, password = base64.b64decode(packed).decode().partition(":")
    value = {"username": user, "password": password, "serveraddress": host}
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
