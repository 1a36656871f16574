"""The Hub's HTTP API, read only: which commit a revision is, and what files it has.

Two requests a repository: `/api/models/REPO/revision/REV` gives the commit and the license,
`/api/models/REPO/tree/COMMIT?recursive=true` the listing with sizes and hashes (in pages, linked
by the Link header). The listing is asked for by commit, so both belong together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import requests

from sparkwright.artifacts import HubFile
from sparkwright.errors import Problem, SparkwrightError

# Seconds for a connection and for each piece of an answer (our choice; the API answers in under
# one second, a proxy that swallows packets never does).
TIMEOUT_S: Final = (10.0, 30.0)


@dataclass(frozen=True)
class Head:
    """What a revision is: its 40-hex commit, and the license that the repository declares."""

    commit: str
    license: str | None


class Hub:
    """One Hub or mirror.

    + endpoint: its address without a trailing slash
    + token: sent to that address only; never part of a message
    """

    def __init__(
        self, endpoint: str, token: str | None = None, session: requests.Session | None = None
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._session = session or requests.Session()
        # .netrc would add credentials of its own to the question.
        self._session.auth = _Bearer(token)

    def head(self, repo: str, revision: str) -> Head:
        """The commit of a branch, tag or commit. Raises SparkwrightError."""
        name = f"{repo}@{revision}"
        data = self._get(f"/api/models/{repo}/revision/{quote(revision, safe='')}", name).json()
        commit = data.get("sha") if isinstance(data, dict) else None
        if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{40}", commit):
            raise _error(name, f"{self.endpoint} answered without a commit", "is it a Hub?")
        return Head(commit, _license(data))

    def files(self, repo: str, commit: str) -> tuple[HubFile, ...]:
        """Every file of a commit, sorted by path. Raises SparkwrightError."""
        name = f"{repo}@{commit}"
        found = [
            _file(entry, name)
            for page in self._pages(f"/api/models/{repo}/tree/{commit}?recursive=true", name)
            for entry in page
            if isinstance(entry, dict) and entry.get("type") == "file"
        ]
        if not found:
            raise _error(name, f"{self.endpoint} lists no file there", "check the name")
        return tuple(sorted(found, key=lambda file: file.path))

    def _pages(self, path: str, name: str) -> Iterator[list[Any]]:
        url: str | None = path
        while url:
            answer = self._get(url, name)
            page = answer.json()
            if not isinstance(page, list):
                raise _error(name, f"{self.endpoint} answered no listing", "is it a Hub?")
            yield page
            url = answer.links.get("next", {}).get("url")

    def _get(self, path: str, name: str) -> requests.Response:
        # A next page may be given with the Hub's own name; a mirror is asked by its name.
        url = self.endpoint + re.sub(r"^https?://[^/]+", "", path)
        try:
            answer = self._session.get(url, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            what = f"{self.endpoint} cannot be reached ({type(error).__name__})"
            raise _error(name, what, "check the network and HTTPS_PROXY") from error
        if answer.status_code != requests.codes.ok:
            raise self._refusal(answer, name)
        if "json" not in answer.headers.get("Content-Type", ""):
            raise _error(name, f"{self.endpoint} answered with a web page", "a login or proxy?")
        return answer

    def _refusal(self, answer: requests.Response, name: str) -> SparkwrightError:
        repo = name.split("@")[0]
        code = answer.headers.get("X-Error-Code", "")
        what = f"{self.endpoint} answered {answer.status_code}"
        if code == "GatedRepo" or answer.status_code == requests.codes.forbidden:
            hint = f"accept the terms at {self.endpoint}/{repo}, set HF_TOKEN of that account"
            return _error(name, f"{what}: the repository is gated", hint)
        if code == "RevisionNotFound":
            return _error(name, f"{what}: there is no such revision", "check the recipe")
        if answer.status_code == requests.codes.unauthorized:
            hint = "check the name, and HF_TOKEN if the repository is private"
            return _error(name, f"{what}: no such repository for this token", hint)
        if answer.status_code == requests.codes.not_found:
            return _error(name, f"{what}: there is no such repository", "check the recipe")
        return _error(name, what, "try again later")


class _Bearer(requests.auth.AuthBase):
    """The token as a header; requests drops it when a redirect leads to another host."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _license(data: dict[str, Any]) -> str | None:
    """The repository's own `license:` tag, as in "license:apache-2.0"."""
    tags = data.get("tags")
    found = [str(tag) for tag in tags if str(tag).startswith("license:")] if tags else []
    return found[0].removeprefix("license:") if found else None


def _file(entry: dict[str, Any], name: str) -> HubFile:
    try:
        lfs = entry.get("lfs")
        if lfs:
            return HubFile(str(entry["path"]), int(lfs["size"]), sha256=str(lfs["oid"]))
        return HubFile(str(entry["path"]), int(entry["size"]), git_sha1=str(entry["oid"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _error(name, "a listed file has no path, size or hash", "is it a Hub?") from error


def _error(name: str, what: str, hint: str) -> SparkwrightError:
    return SparkwrightError(str(Problem(name, what, hint)))
