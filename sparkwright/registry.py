"""A container registry, read only: what a tag is for one platform. Nothing is guessed.

Requests of the distribution specification 1.1 (github.com/opencontainers/distribution-spec):
`/v2/NAME/manifests/TAG`, for an index the manifest of the platform, and the image's configuration
as a blob. A registry that wants a token says where to get one (WWW-Authenticate), and for public
images everybody gets it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import requests

from sparkwright.errors import Problem, SparkwrightError

TIMEOUT_S: Final = (10.0, 30.0)  # for a connection, for each piece of an answer (our choice)
# Docker Hub's API lies elsewhere than its name says (docs.docker.com, Registry HTTP API V2).
_HOSTS: Final = {"docker.io": "registry-1.docker.io"}
_INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


@dataclass(frozen=True)
class Found:
    """An image of one platform.

    + digest: of its manifest; size: bytes of all that a pull brings
    + image_id: digest of its configuration
    + cuda_min: CUDA version that it wants the driver to speak; None when it wants none
    """

    digest: str
    size: int
    image_id: str
    cuda_min: str | None


class Registry:
    """Every registry that a reference names.

    + plain: hosts that speak http, such as one on this computer
    """

    def __init__(
        self, session: requests.Session | None = None, plain: tuple[str, ...] = ()
    ) -> None:
        self._session = session or requests.Session()
        self._plain = plain
        self._tokens: dict[str, str] = {}

    def find(self, ref: str, tag: str, platform: str) -> Found:
        """What a tag (or digest) is for a platform ("linux/arm64"). Raises SparkwrightError."""
        name = f"{ref}:{tag}"
        text, kind = self._get(ref, f"manifests/{tag}", (*_INDEXES, *_MANIFESTS))
        digest = _sha256(text)
        if kind in _INDEXES:
            digest = _choose(_map(text, name).get("manifests"), platform, name)
            text, kind = self._get(ref, f"manifests/{digest}", _MANIFESTS)
            if _sha256(text) != digest:
                raise _error(name, f"its manifest is not {digest}", "is a proxy in between?")
        manifest = _map(text, name)
        blobs = [manifest.get("config"), *(manifest.get("layers") or [])]
        if kind not in _MANIFESTS or not all(isinstance(blob, dict) for blob in blobs):
            raise _error(name, f"is a {kind}, no image", "is it an image at all?")
        return self._found(ref, name, platform, digest, len(text), blobs)

    def _found(
        self, ref: str, name: str, platform: str, digest: str, size: int, blobs: list[Any]
    ) -> Found:
        image_id = str(blobs[0].get("digest"))
        text = self._get(ref, f"blobs/{image_id}", ())[0]
        if _sha256(text) != image_id:
            raise _error(name, f"its configuration is not {image_id}", "is a proxy in between?")
        config = _map(text, name)
        says = f"{config.get('os')}/{config.get('architecture')}"
        if says != platform:
            raise _error(name, f"is for {says}, not {platform}", "choose another tag")
        env = (config.get("config") or {}).get("Env") or []
        total = size + sum(int(blob["size"]) for blob in blobs)
        return Found(digest, total, image_id, cuda_min(env))

    def _get(self, ref: str, path: str, kinds: tuple[str, ...]) -> tuple[bytes, str]:
        """Body and media type. Raises SparkwrightError."""
        url = self._url(ref, path)
        headers = {"Accept": ", ".join(kinds)} if kinds else {}
        for _ in range(2):
            if ref in self._tokens:
                headers["Authorization"] = f"Bearer {self._tokens[ref]}"
            answer = self._ask(url, headers)
            if answer.status_code != 401 or ref in self._tokens:
                break
            self._tokens[ref] = self._token(ref, answer.headers.get("WWW-Authenticate", ""))
        if answer.status_code != 200:
            what = f"{url} answered {answer.status_code}"
            raise _error(ref, what, "check the name and the tag, and whether it is public")
        return answer.content, answer.headers.get("Content-Type", "").split(";")[0]

    def _url(self, ref: str, path: str) -> str:
        host, _, repository = ref.partition("/")
        scheme = "http" if host in self._plain else "https"
        return f"{scheme}://{_HOSTS.get(host, host)}/v2/{repository}/{path}"

    def _token(self, ref: str, challenge: str) -> str:
        """The token that a registry's challenge leads to."""
        told = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        if not challenge.lower().startswith("bearer ") or "realm" not in told:
            raise _error(
                ref, "its registry wants a login that is not known here", "pull it by hand"
            )
        query = {key: told[key] for key in ("service", "scope") if key in told}
        answer = self._ask(told["realm"], {}, query)
        value = _map(answer.content, ref) if answer.status_code == 200 else {}
        token = value.get("token") or value.get("access_token")
        if not isinstance(token, str):
            raise _error(ref, f"{told['realm']} gave no token ({answer.status_code})", "log in")
        return token

    def _ask(
        self,
        url: str,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
    ) -> requests.Response:
        try:
            return self._session.get(url, headers=dict(headers), params=query, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            what = f"cannot be reached ({type(error).__name__})"
            raise _error(url, what, "check the network and HTTPS_PROXY") from error


def cuda_min(env: list[Any]) -> str | None:
    """The CUDA version that an image's NVIDIA_REQUIRE_CUDA asks for.

    Its alternatives are separated by spaces; the first is the general one ("cuda>=13.0"), the
    others are data-centre drivers of older branches (docs.nvidia.com, container toolkit, "Driver
    capabilities and constraints").
    """
    for entry in env:
        found = re.match(r"NVIDIA_REQUIRE_CUDA=(?:\S*,)?cuda>=([0-9]+\.[0-9]+)", str(entry))
        if found:
            return found[1]
    return None


def _choose(manifests: Any, platform: str, name: str) -> str:
    """The one manifest of a platform; attestations say unknown/unknown."""
    entries = [item for item in manifests or [] if isinstance(item, dict)]
    said = [(f"{p.get('os')}/{p.get('architecture')}", str(item.get("digest")))
            for item in entries if isinstance(p := item.get("platform"), dict)]  # fmt: skip
    found = [digest for words, digest in said if words == platform]
    if len(found) != 1:
        there = ", ".join(sorted({words for words, _ in said})) or "none"
        raise _error(name, f"{len(found)} images for {platform}; it has {there}", "another tag?")
    return found[0]


def _map(text: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _error(name, "its registry answered no JSON object", "is a proxy in between?")
    return value


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _error(where: str, what: str, hint: str) -> SparkwrightError:
    return SparkwrightError(str(Problem(where, what, hint)))
