"""llama.cpp's source once more, as another commit: the same tree with another message."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from tests.lab.host import run
from tests.lab.hubrepo import sha256
from tests.lab.lab import Lab

MOMENT = "2026-02-02T00:00:00+0000"


def publish(lab: Lab) -> dict[str, object]:
    """Put the archive where the machines can fetch it; returns its fields of the lock."""
    source = lab.prepared.llama
    folder = lab.home / "other-commit"
    tree = folder / "tree"
    tree.mkdir(parents=True)
    run("tar", "-xzf", source.archive, "-C", tree, "--strip-components=1", "--no-same-owner")
    commit = _commit(tree)
    target = lab.upstream.files_dir / f"llama.cpp-{commit}.tar.gz"
    # The folder keeps the first commit's name: the compiler cache looks at paths, too.
    _pack(tree, f"llama.cpp-{source.commit}/", target)
    shutil.rmtree(folder)
    url = f"{lab.upstream.url}/files/{target.name}"
    return {"commit": commit, "url": url, "size": target.stat().st_size, "sha256": sha256(target)}


def _git(tree: Path, *words: str) -> str:
    person = {"NAME": "sparkwright lab", "EMAIL": "lab@localhost", "DATE": MOMENT}
    env = {f"GIT_{who}_{key}": person[key] for who in ("AUTHOR", "COMMITTER") for key in person}
    env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    return run("git", "-C", tree, "-c", "tar.umask=0022", *words, env=env).stdout.strip()


def _commit(tree: Path) -> str:
    _git(tree, "init", "--quiet", "--initial-branch=lab")
    _git(tree, "add", "--all", "--force")
    _git(tree, "commit", "--quiet", "--message", "the same tree, another commit")
    return _git(tree, "rev-parse", "HEAD")


def _pack(tree: Path, prefix: str, target: Path) -> None:
    tar = target.with_suffix(".tar")
    _git(tree, "archive", "--format=tar", f"--prefix={prefix}", f"--output={tar}", "HEAD")
    with tar.open("rb") as source, gzip.open(target, "wb", compresslevel=1) as packed:
        shutil.copyfileobj(source, packed)
    tar.unlink()
