"""A short name for a set of inputs: equal inputs, equal digest, in every process."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence

from sparkwright.errors import SparkwrightError

# 48 bits: a chance of 2e-8 for two equal ones among 3,000 digests (birthday bound n*n/2/2**48).
DIGEST_CHARS = 12


def digest(inputs: Mapping[str, object]) -> str:
    """12 hex characters of the sha256 over canonical JSON (sorted keys, no spaces, ASCII).

    Takes text, numbers, booleans, None, and maps, lists and tuples of them; a list and a tuple of
    the same things are equal. Raises SparkwrightError for anything else, with its place.
    """
    _check(inputs, "digest")
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARS]


def _check(value: object, where: str) -> None:
    # json would turn the key 1 into "1" and NaN into something no parser reads.
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise SparkwrightError(f"{where}: key {key!r} is not text; name the input")
            _check(item, f"{where}/{key}")
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        for index, item in enumerate(value):
            _check(item, f"{where}/{index}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise SparkwrightError(f"{where}: {value} is not a finite number; give one")
    elif value is not None and not isinstance(value, str | int | float):
        kind = type(value).__name__
        raise SparkwrightError(f"{where}: a {kind} has no fixed text form; pass text or numbers")
