"""What a benchmark must know of a model on this machine: headers, vocabulary. Reads only.

Runs as `python3 -c <this text> <spec>` over SSH. SPEC: {"directory", "files" (names below it),
"key_file" or null, "vocabulary": bool}. Prints {"key", "why", "gguf": [{"metadata", "tensors":
[[name, dimensions, ggml type]]}], "safetensors": [header], "config", "tokenizer"}; a weight is
never read. GGUF: ggml's docs/gguf.md; safetensors: its README, "Format".
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}  # fmt: skip
STRING, ARRAY = 8, 9
# Longer arrays are a vocabulary: a list of layers has at most some hundred entries.
LONG = 4096
WORDS = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")


def one(file: BinaryIO, letter: str) -> Any:
    """A number."""
    return struct.unpack("<" + letter, file.read(struct.calcsize("<" + letter)))[0]


def text(file: BinaryIO) -> str:
    """A string."""
    return file.read(one(file, "Q")).decode(errors="replace")


def value(file: BinaryIO, kind: int) -> Any:
    """A value of metadata."""
    if kind == STRING:
        return text(file)
    if kind != ARRAY:
        return one(file, SCALARS[kind])
    inner, count = one(file, "I"), one(file, "Q")
    if inner in (STRING, ARRAY):
        return [value(file, inner) for _ in range(count)]
    letter = SCALARS[inner]
    return list(struct.unpack(f"<{count}{letter}", file.read(count * struct.calcsize(letter))))


def gguf(path: Path, vocabulary: bool) -> dict[str, Any]:
    """Metadata and tensors of one file. Raises ValueError, struct.error, KeyError."""
    with path.open("rb") as file:
        magic, version = struct.unpack("<4sI", file.read(8))
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(f"{path}: is not a GGUF file of version 2 or 3")
        tensors, pairs = struct.unpack("<QQ", file.read(16))
        found = {text(file): value(file, one(file, "I")) for _ in range(pairs)}
        rows = [tensor(file) for _ in range(tensors)]
    found["vocabulary"] = len(found.get(WORDS[0], ()))
    kept = {key: part for key, part in found.items()
            if not isinstance(part, list) or len(part) < LONG
            or (vocabulary and key in WORDS)}  # fmt: skip
    return {"metadata": kept, "tensors": rows}


def tensor(file: BinaryIO) -> list[Any]:
    """Name, dimensions and type of one tensor."""
    name = text(file)
    dimensions = [one(file, "Q") for _ in range(one(file, "I"))]
    kind = one(file, "I")
    one(file, "Q")  # where it lies
    return [name, dimensions, kind]


def safetensors(path: Path) -> Any:
    """The header of one file. Raises ValueError, struct.error."""
    with path.open("rb") as file:
        length = one(file, "Q")
        if length > path.stat().st_size:
            raise ValueError(f"{path}: its header is longer than the file")
        return json.loads(file.read(length))


def model(spec: dict[str, Any]) -> dict[str, Any]:
    """Everything about the model. Raises OSError and what the readers raise."""
    top = Path(spec["directory"])
    paths = [top / name for name in spec["files"]]
    said: dict[str, Any] = {
        "gguf": [gguf(path, spec["vocabulary"]) for path in paths if path.suffix == ".gguf"],
        "safetensors": [safetensors(path) for path in paths if path.suffix == ".safetensors"],
    }
    config, tokenizer = top / "config.json", top / "tokenizer.json"
    said["config"] = json.loads(config.read_text()) if config.is_file() else None
    if spec["vocabulary"] and tokenizer.is_file():
        said["tokenizer"] = tokenizer.read_text()
    return said


def main(argv: list[str]) -> int:
    """Print what is asked for; what could not be read is said, and the rest all the same."""
    spec = json.loads(argv[0])
    said: dict[str, Any] = {"key": "", "why": ""}
    try:
        if spec["key_file"]:
            said["key"] = Path(spec["key_file"]).read_text().strip()
        said |= model(spec)
    except (OSError, ValueError, KeyError, struct.error) as error:
        said["why"] = f"{type(error).__name__}: {error}"
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
