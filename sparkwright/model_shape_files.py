"""A recipe's model: its shape and the size of its weights, from wherever they are known."""

from __future__ import annotations

import functools
import glob
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright import model_shape_gguf
from sparkwright.artifacts import Lock
from sparkwright.errors import SparkwrightError
from sparkwright.model_shape import ModelShape, from_config
from sparkwright.recipe_types import Weights
from sparkwright.roofline import Tensor
from sparkwright.selection import select

KNOWN = Path(__file__).resolve().parent / "data/model-configs.json"
WEIGHTS = (".safetensors", ".gguf")
SHORT = "is shorter than its own header says; fetch it again"


@dataclass(frozen=True)
class Model:
    """What is known of a model.

    + bytes: of its weights in memory
    + measured: somebody saw the engine say that number; else it is the size of the files
    + sources: where shape and size come from, for people
    + tensors: every tensor, when the files are at hand
    """

    shape: ModelShape
    bytes: float
    measured: bool
    sources: tuple[str, ...]
    tensors: tuple[Tensor, ...] = ()


@functools.cache
def known() -> Mapping[str, Mapping[str, Any]]:
    """Configurations of public models that our recipes name, each with its source."""
    found: dict[str, dict[str, Any]] = json.loads(KNOWN.read_text())
    for entry in found.values():
        if "same_as" in entry:
            entry["config"] = found[entry["same_as"]]["config"]
    return found


def of_directory(directory: Path) -> Model:
    """From a model's own files: only headers are read.

    Raises SparkwrightError when there is no model, or a file of it is damaged.
    """
    if not directory.is_dir():
        raise SparkwrightError(f"{directory}: is no directory; give the one that holds the model")
    gguf = sorted(directory.rglob("*.gguf"))
    if gguf:
        return _of_gguf(gguf, str(directory))
    config = directory / "config.json"
    files = sorted(directory.glob("*.safetensors"))
    if not config.is_file() or not files:
        what = "holds neither a GGUF file nor a config.json with safetensors"
        raise SparkwrightError(f"{directory}: {what}; give the directory of the model's files")
    try:
        shape = from_config(json.loads(config.read_text()), str(config))
    except ValueError as error:
        raise SparkwrightError(f"{config}: is no JSON ({error})") from None
    tensors = tuple(tensor for path in _all(files) for tensor in safetensors(path))
    return Model(shape, sum(t.bytes for t in tensors), False, (str(directory),), tensors)


def of_file(path: Path) -> Model:
    """From one GGUF file, and the shards that belong to it.

    Raises SparkwrightError when there is none, or it is damaged.
    """
    if not path.is_file():
        raise SparkwrightError(f"{path}: no such file; give a .gguf file or a model's directory")
    shard = re.fullmatch(r"(.+)-\d{5}-of-\d{5}\.gguf", path.name)
    files = sorted(path.parent.glob(f"{glob.escape(shard[1])}-*-of-*.gguf")) if shard else [path]
    return _of_gguf(files, str(path))


def _of_gguf(files: list[Path], where: str) -> Model:
    read = [(path, *model_shape_gguf.read(path)) for path in _all(files)]
    return of_gguf_headers([(said, _held(path, some)) for path, said, some in read], where)


def _all(files: list[Path]) -> list[Path]:
    """The files. Raises SparkwrightError when one is a shard, and another of its model is absent:
    what is not there would take no memory."""
    names = {path.name for path in files}
    for path in files:
        if hit := re.fullmatch(r"(.+)-\d{5}-of-(\d{5})(\.\w+)", path.name):
            every = [f"{hit[1]}-{n:05}-of-{hit[2]}{hit[3]}" for n in range(1, int(hit[2]) + 1)]
            if missing := [name for name in every if name not in names]:
                raise SparkwrightError(f"{path.parent / missing[0]}: is missing; fetch it again")
    return files


def _held(path: Path, tensors: list[Tensor]) -> list[Tensor]:
    """The tensors of a file. Raises SparkwrightError when it is too short to hold them."""
    if sum(tensor.bytes for tensor in tensors) > path.stat().st_size:
        raise SparkwrightError(f"{path}: {SHORT}")
    return tensors


def of_gguf_headers(read: Sequence[tuple[Mapping[str, Any], list[Tensor]]], where: str) -> Model:
    """From metadata and tensors of every shard. Raises SparkwrightError without metadata."""
    # Shards: the first one holds the metadata, every one its own tensors.
    metadata = next((found for found, _ in read if "general.architecture" in found), {})
    tensors = tuple(tensor for _, some in read for tensor in some)
    shape = model_shape_gguf.shape_of(metadata, where)
    return Model(shape, sum(tensor.bytes for tensor in tensors), False, (where,), tensors)


def safetensors(path: Path) -> list[Tensor]:
    """Tensors of one file, from its header (huggingface/safetensors, README, "Format")."""
    try:
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            if length > path.stat().st_size:
                raise SparkwrightError(f"{path}: its header is longer than the file; repair it")
            header = json.loads(file.read(length))
    except (struct.error, ValueError):
        raise SparkwrightError(f"{path}: has no header of safetensors; repair it") from None
    tensors = of_safetensors_header(header)
    if 8 + length + sum(tensor.bytes for tensor in tensors) > path.stat().st_size:
        raise SparkwrightError(f"{path}: {SHORT}")
    return tensors


def of_safetensors_header(header: Mapping[str, Any]) -> list[Tensor]:
    """Tensors in the JSON that a file of safetensors begins with."""
    return [
        Tensor(
            name, entry["data_offsets"][1] - entry["data_offsets"][0], (entry["shape"] or [1])[0]
        )
        for name, entry in header.items()
        if name != "__metadata__"
    ]


def of_recipe(weights: Weights, lock: Lock | None, serves: str) -> Model:
    """From the lock's file sizes and the configurations that are known.

    + serves: vllm, or another server; what vLLM was seen to take counts for vLLM alone

    Raises SparkwrightError when shape or size is known from nowhere.
    """
    entry = known().get(weights.repo)
    if entry is None:
        raise SparkwrightError(
            f"{weights.repo}: its config is not known here; give --dir with its files "
            "(config.json and safetensors, or GGUF)"
        )
    shape, source = from_config(entry["config"], weights.repo), f"shape: {entry['source']}"
    if serves == "vllm" and "resident_gib" in entry:
        size = entry["resident_gib"] * 2**30
        return Model(shape, size, True, (source, f"weights: {entry['resident_source']}"))
    locked = _locked(weights, lock)
    if locked:
        return Model(shape, locked, False, (source, "weights: file sizes in the lock"))
    if "bytes" not in entry:
        raise SparkwrightError(
            f"{weights.repo}: the size of its weights is not known; run `sparkwright lock`"
        )
    return Model(shape, entry["bytes"], False, (source, "weights: file sizes on the Hub"))


def _locked(weights: Weights, lock: Lock | None) -> int:
    snapshot = lock.snapshot(weights.repo, weights.revision) if lock else None
    if snapshot is None:
        return 0
    kept = select(snapshot.files, weights.include, weights.exclude).kept
    return sum(file.size for file in kept if file.path.endswith(WEIGHTS))
