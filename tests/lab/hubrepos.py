"""The repositories of the lab's hub, made on the spot from fixed seeds."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

from .host import cache_dir, made_beside, say

SHARD_SIZE = 3_000_000  # enough for a transfer to be cut in the middle, small enough for a test
CARD = "---\nlicense: apache-2.0\n---\n# {name}\n\nMade by sparkwright's lab for tests.\n"


def prepare(template: Path) -> Path:
    """Make all repositories; returns the folder with `<org>/<name>/`. Hold the prepare lock.

    + template: gpt-oss's chat template, out of llama.cpp's source
    """
    sources = [Path(__file__), Path(__file__).with_name("tiny_gguf.py"), template]
    text = b"\0".join(path.read_bytes() for path in sources)
    target = cache_dir() / "hub" / hashlib.sha256(text).hexdigest()[:12]
    if not target.exists():
        say("tiny models for the lab's hub")
        with made_beside(target) as folder:
            org = folder / "sparkwright-lab"
            _gpt_oss(org / "tiny-gpt-oss-GGUF", template)
            _llama(org / "tiny-llama-GGUF")
            _safetensors(org / "tiny-safetensors")
            _gated(org / "gated")
    return target


def _start(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(CARD.format(name=folder.name))


def _noise(path: Path, size: int) -> None:
    """A file that looks like weights and holds none: the same random bytes everywhere."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random.Random(path.name).randbytes(size))


def _gpt_oss(folder: Path, template: Path) -> None:
    from . import tiny_gguf  # gguf and numpy take a third of a second; most runs need neither

    _start(folder)
    tiny_gguf.write_gpt_oss(folder / "tiny-gpt-oss.gguf", template.read_text())


def _llama(folder: Path) -> None:
    from . import tiny_gguf

    _start(folder)
    tiny_gguf.write_llama(folder / "tiny-llama.gguf")


def _safetensors(folder: Path) -> None:
    """openai/gpt-oss-120b's layout: shards and two folders that nobody should fetch."""
    _start(folder)
    shards = [f"model-{number:05d}-of-00002.safetensors" for number in range(3)]
    for name in shards:
        _noise(folder / name, SHARD_SIZE)
    index = {"weight_map": {f"layer.{place}": name for place, name in enumerate(shards)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    (folder / "config.json").write_text(json.dumps({"architectures": ["None"]}, indent=2))
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0"}, indent=2))
    for number in (1, 2):
        _noise(folder / f"original/model--0000{number}-of-00002.safetensors", SHARD_SIZE // 3)
    (folder / "original/config.json").write_text("{}\n")
    _noise(folder / "metal/model.bin", SHARD_SIZE // 3)


def _gated(folder: Path) -> None:
    _start(folder)
    (folder / ".gated").touch()
    _noise(folder / "model.safetensors", SHARD_SIZE // 3)
    (folder / "config.json").write_text("{}\n")
