"""The part of the Hub's HTTP API that huggingface_hub 2.4.0 uses, answered from folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from .hubrepo import HubFile, Repo, find
from .replies import Reply, as_json, failure

# Tokens of the lab: one may read the gated repository, one is valid but was not accepted there.
ACCEPTED_TOKEN = "hf_labAcceptedTokenForTheGatedRepository"
OTHER_TOKEN = "hf_labValidTokenWithoutAccess"

INFO = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?")
TREE = re.compile(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)(?:/(.*))?")
RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


def answer(
    folders: Sequence[Path], path: str, query: Mapping[str, str], token: str | None
) -> Reply | None:
    """The Hub's answer to a GET or HEAD; None when the path is not the Hub's.

    + path: without query, as it came
    + token: from the Authorization header
    """
    if path == "/api/whoami-v2":
        known = token in (ACCEPTED_TOKEN, OTHER_TOKEN)
        return as_json({"name": "lab"}) if known else failure(401, "Invalid username or password.")
    for pattern, handler in ((TREE, _tree), (INFO, _info), (RESOLVE, _resolve)):
        match = pattern.fullmatch(path)
        if match:
            name, revision, rest = (*match.groups(), None)[:3]
            return _checked(folders, name, unquote(revision or "main"), token) or handler(
                _repo(folders, name), unquote(rest or ""), query, token
            )
    return None


def _repo(folders: Sequence[Path], name: str | None) -> Repo:
    repo = find(folders, name or "")
    if repo is None:
        raise FileNotFoundError(name)
    return repo


def _checked(
    folders: Sequence[Path], name: str | None, revision: str, token: str | None
) -> Reply | None:
    """The refusal, if there is one: a bad token, no such repository, no such revision."""
    if token and token not in (ACCEPTED_TOKEN, OTHER_TOKEN):
        return failure(401, "Invalid username or password.")
    repo = find(folders, name or "")
    if repo is None:
        return failure(404, "Repository not found", "RepoNotFound")
    if revision not in ("main", repo.commit):
        return failure(404, f"Invalid rev id: {revision}", "RevisionNotFound")
    return None


def _lfs(file: HubFile, key: str) -> dict[str, object]:
    if file.sha256 is None:
        return {}
    return {"lfs": {key: file.sha256, "size": file.size, "pointerSize": 134}}


def _info(repo: Repo, _: str, query: Mapping[str, str], token: str | None) -> Reply:
    siblings: list[dict[str, object]] = [{"rfilename": file.path} for file in repo.files()]
    if query.get("blobs", "").lower() == "true":
        for entry, file in zip(siblings, repo.files(), strict=True):
            entry.update(size=file.size, blobId=file.oid, **_lfs(file, "sha256"))
    return as_json(
        {
            "_id": repo.commit[:24],
            "id": repo.name,
            "modelId": repo.name,
            "sha": repo.commit,
            "private": False,
            "gated": "manual" if repo.gated else False,
            "tags": [f"license:{repo.license}"],
            "cardData": {"license": repo.license},
            "siblings": siblings,
        }
    )


def _tree(repo: Repo, below: str, query: Mapping[str, str], token: str | None) -> Reply:
    recursive = query.get("recursive", "").lower() in ("true", "1")
    prefix = f"{below}/" if below else ""
    entries: list[dict[str, object]] = []
    folders: set[str] = set()
    for file in repo.files():
        if not file.path.startswith(prefix):
            continue
        parts = file.path[len(prefix) :].split("/")
        folders.update(prefix + "/".join(parts[:depth]) for depth in range(1, len(parts)))
        if recursive or len(parts) == 1:
            entry = {"type": "file", "path": file.path, "size": file.size, "oid": file.oid}
            entries.append({**entry, **_lfs(file, "oid")})
    for folder in sorted(folders):
        if recursive or "/" not in folder[len(prefix) :]:
            entries.append({"type": "directory", "path": folder, "size": 0, "oid": "0" * 40})
    return as_json(entries)


def _resolve(repo: Repo, name: str, query: Mapping[str, str], token: str | None) -> Reply:
    if repo.gated and token != ACCEPTED_TOKEN:
        text = f"Access to model {repo.name} is restricted"
        return failure(403 if token else 401, text, "GatedRepo")
    file = next((file for file in repo.files() if file.path == name), None)
    if file is None:
        return failure(404, "Entry not found", "EntryNotFound")
    headers = {
        "X-Repo-Commit": repo.commit,
        "ETag": f'"{file.etag}"',
        "Content-Type": "application/octet-stream",
    }
    if file.sha256:
        headers |= {"X-Linked-Size": str(file.size), "X-Linked-Etag": f'"{file.etag}"'}
    return Reply(200, repo.folder / name, headers)
