"""A model out of what a machine says of its files (bench_read.py there). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkwright import bench_benchy, bench_tokenizer, model_shape_gguf
from sparkwright.errors import SparkwrightError
from sparkwright.model_shape import from_config
from sparkwright.model_shape_files import Model, of_gguf_headers, of_safetensors_header
from sparkwright.status_rows import Row


def model(said: Mapping[str, Any], where: str) -> tuple[Model | None, str]:
    """The model, or None and why."""
    if said["why"]:
        return None, str(said["why"])
    try:
        if said["gguf"]:
            read = [(_metadata(part), [model_shape_gguf.tensor(row[0], row[1], row[2], where)
                                       for row in part["tensors"]])
                    for part in said["gguf"]]  # fmt: skip
            return of_gguf_headers(read, where), ""
        if said["config"] is None or not said["safetensors"]:
            return None, "there is neither a GGUF file nor a config.json with safetensors"
        tensors = tuple(t for header in said["safetensors"] for t in of_safetensors_header(header))
        shape = from_config(said["config"], where)
        return Model(shape, sum(t.bytes for t in tensors), False, (where,), tensors), ""
    except SparkwrightError as error:
        return None, str(error)


def _metadata(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata, with the size of a vocabulary that did not travel."""
    found = dict(part["metadata"])
    arch = found.get("general.architecture")
    found.setdefault(f"{arch}.vocab_size", found.pop("vocabulary", 0))
    return found


def tokenizer(said: Mapping[str, Any], given: Path | None) -> str | None:
    """Text of a tokenizer.json: the given one, the machine's, or one out of its GGUF file."""
    if given is not None:
        return bench_benchy.local(given, None)
    if said.get("tokenizer"):
        return str(said["tokenizer"])
    made = (bench_tokenizer.of_metadata(part["metadata"]) for part in said.get("gguf", ()))
    return next((text for text in made if text), None)


def unproved(row: Row) -> tuple[str, ...]:
    """A note for a model that may answer wrongly: its speed is not that of a sound one."""
    if row.accepted:
        return ()
    look = f"`sparkwright verify --limit {row.machine}`"
    return (f"it has not answered its question since its start: {look} says whether it can",)
