"""An endpoint that belongs to no fleet, given by its address."""

from __future__ import annotations

import argparse
import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkwright import bench_benchy, bench_drive, bench_measure
from sparkwright.bench_drive import Target
from sparkwright.bench_measure import Subject
from sparkwright.bench_runs import Run
from sparkwright.cli_bench import asked
from sparkwright.errors import SparkwrightError
from sparkwright.model_shape_files import Model, of_directory, of_file


def run(options: argparse.Namespace) -> Run:
    """Measure the endpoint of --url. Raises SparkwrightError."""
    key = read_key(options.key_file)
    target = bench_drive.target_of(options.url, options.model or "", key)
    if not options.model:
        target = bench_drive.target_of(options.url, listed(options.url, target), key)
    model = model_of(options.model_file)
    subject = Subject(
        where=options.url,
        recipe=options.recipe or target.model,
        machine="",
        engine="unknown",
        target=target,
        place="url",
        bandwidth=bench_measure.bytes_s(options.bandwidth),
        model=model,
        notes=() if model else ("no roof: give --model-file with the model's files",),
    )
    want = asked(options)
    made = bench_measure.measure(
        subject, want, bench_drive.here, options.anyway, options.gate
    )  # fmt: skip
    tokenizer = bench_benchy.local(options.tokenizer, options.model_file)
    return replace(made, benchy=bench_benchy.run(target, want, made, tokenizer, options))


def read_key(path: Path | None) -> str:
    """The API key. Raises SparkwrightError when the file cannot be read."""
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise SparkwrightError(
            f"--key-file {path}: {error.strerror}; give a readable file"
        ) from None


def model_of(path: Path | None) -> Model | None:
    """Shape and tensors of a file or directory."""
    if path is None:
        return None
    return of_directory(path) if path.is_dir() else of_file(path)


def listed(url: str, target: Target) -> str:
    """The one model that an endpoint lists. Raises SparkwrightError when that is not one."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    address = f"{target.scheme}://{host}:{target.port}{target.prefix}/models"
    headers = {"Authorization": f"Bearer {target.key}"} if target.key else {}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 - http(s), checked
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - as above
            said: dict[str, Any] = json.load(answer)
        names = [str(row["id"]) for row in said["data"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SparkwrightError(f"{url}: lists no models ({error}); is it served?") from None
    if len(names) != 1:
        raise SparkwrightError(f"{url}: serves {', '.join(names) or 'none'}; choose with --model")
    return names[0]
