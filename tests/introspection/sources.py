"""Real vLLM sources out of the source archives on PyPI, through pip; nothing of them runs.

pip asks a source archive's build backend for its metadata before it hands the archive over; vLLM's
would want torch. A backend of ours of the same name, first on the path, answers from PKG-INFO.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sparkwright.vllm_learn import unpack
from tests.lab.host import cache_dir, locked, made_beside, run, say

BACKEND = '''"""Metadata of an unpacked source archive, without running it."""

from pathlib import Path


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    place = Path(folder) / "vllm.dist-info"
    place.mkdir()
    (place / "METADATA").write_bytes(Path("PKG-INFO").read_bytes())
    return place.name
'''


def download(version: str, folder: Path) -> Path:
    """The source archive of a release (30 to 47 MB) in a folder."""
    with tempfile.TemporaryDirectory() as stub:
        package = Path(stub) / "setuptools"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "build_meta.py").write_text(BACKEND)
        pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download")
        only = ("--no-deps", "--no-cache-dir", "--no-binary=vllm", "--no-build-isolation")
        words = (*pip, *only, "--dest", folder, f"vllm=={version}")
        run(*words, env={"PYTHONPATH": stub})
    return next(folder.glob("vllm-*.tar.gz"))


def sources(version: str) -> Path:
    """The unpacked Python sources of a release, from the lab's cache; fetched once."""
    target = cache_dir() / "vllm-sources" / version
    with locked(cache_dir() / "vllm-sources.lock"):
        if not target.exists():
            say(f"sources of vLLM {version} from PyPI (once)")
            with made_beside(target) as folder, tempfile.TemporaryDirectory() as fetched:
                unpack(download(version, Path(fetched)), folder)
    return target


def forget(versions: Sequence[str]) -> None:
    """Remove what was unpacked of releases."""
    for version in versions:
        shutil.rmtree(cache_dir() / "vllm-sources" / version, ignore_errors=True)
