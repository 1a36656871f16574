"""llama-benchy, the tool whose tables this community compares, run without any network.

It is an extra (`pip install -e '.[operate]'`): it brings transformers, numpy and a few more. It
would download a book and a tokenizer; it gets our own documents as the book (its cache is a file
named by the MD5 of the address, llama-benchy 0.4.0, corpus.py) and a tokenizer.json as a path.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sparkwright import bench_tokenizer
from sparkwright.bench_drive import Asked, Target
from sparkwright.bench_runs import Run
from sparkwright.paths import PROJECT

BOOK: Final = "sparkwright-documents"
# Its API key is an argument, which every user of this computer could read: so its words come by
# stdin, and it finds them in its own process only.
LAUNCH: Final = (
    "import sys, json; sys.argv = json.load(sys.stdin); "
    "from llama_benchy.__main__ import main; main()"
)
OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "NO_PROXY": "*"}
INSTALL: Final = "it is not installed here: pip install -e '.[operate]' in the project's directory"
NO_TOKENIZER: Final = "the model's tokenizer is not at hand: give --tokenizer a tokenizer.json"


def local(given: Path | None, model: Path | None) -> str | None:
    """Text of a tokenizer.json: the given one, the model's own, or one made out of a GGUF file."""
    if given is not None:
        path = given / "tokenizer.json" if given.is_dir() else given
        return path.read_text()
    if model is None:
        return None
    beside = (model if model.is_dir() else model.parent) / "tokenizer.json"
    if beside.is_file():
        return beside.read_text()
    return bench_tokenizer.of_gguf(sorted(model.rglob("*.gguf")) if model.is_dir() else [model])


def run(
    target: Target, asked: Asked, made: Run, tokenizer: str | None, options: argparse.Namespace
) -> Mapping[str, Any]:
    """
    Its rows, or {"why": …} when it was not run.

    + made: our own run: depths that the context does not hold are left out here as well
    + tokenizer: text of a tokenizer.json
    """
    if options.no_benchy:
        return {"why": "--no-benchy"}
    if importlib.util.find_spec("llama_benchy") is None:
        return {"why": INSTALL}
    if not tokenizer:
        return {"why": NO_TOKENIZER}
    depths = [d.tokens - asked.pp for d in made.depths if not d.errors]
    if not depths:
        return {"why": "no depth could be measured"}
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "tokenizer.json").write_text(tokenizer)
        _book(home)
        return _result(home, _words(target, asked, depths, home))


def _book(home: Path) -> None:
    """Our documents where it looks for what it has downloaded before."""
    name = hashlib.md5(BOOK.encode(), usedforsecurity=False).hexdigest()
    cache = home / ".cache/llama-benchy"
    cache.mkdir(parents=True)
    texts = [path.read_text() for path in sorted((PROJECT / "docs").glob("*.md"))]
    (cache / f"{name}.txt").write_text("\n\n".join([*texts, (PROJECT / "LICENSE").read_text()]))


def _words(target: Target, asked: Asked, depths: list[int], home: Path) -> list[str]:
    host = f"[{target.host}]" if ":" in target.host else target.host
    words = ["llama-benchy", "--base-url", f"{target.scheme}://{host}:{target.port}{target.prefix}"]
    words += ["--api-key", target.key] if target.key else []
    words += ["--model", target.model, "--tokenizer", str(home / "tokenizer.json")]
    words += ["--pp", str(asked.pp), "--tg", str(asked.tg), "--runs", str(asked.repeat)]
    words += ["--depth", *map(str, depths), "--exact-tg", "--no-cache", "--book-url", BOOK]
    # What is asked there ("Paris") is what `sparkwright verify` asks better, by the recipe.
    words += ["--skip-coherence", "--latency-mode", "generation", "--exit-on-first-fail"]
    return [*words, "--save-result", str(home / "result.json"), "--format", "json"]


def _result(home: Path, words: list[str]) -> Mapping[str, Any]:
    env = {**os.environ, **OFFLINE, "HOME": str(home)}
    print("llama-benchy runs", file=sys.stderr, flush=True)
    done = subprocess.run(  # noqa: S603 - the pinned tool, in a process of its own
        [sys.executable, "-c", LAUNCH], input=json.dumps(words), env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    result = home / "result.json"
    if done.returncode != 0 or not result.is_file():
        last = [line for line in done.stdout.splitlines() if line.strip()][-1:]
        return {"why": f"it ended with {done.returncode}: {' '.join(last)[:300]}"}
    return rows(json.loads(result.read_text()))


def rows(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Its JSON as the rows of its tables; tok/s."""
    made = []
    for part in found["benchmarks"]:
        at = f" @ d{part['context_size']}" if part["context_size"] else ""
        for name, size in (("pp", "prompt_size"), ("tg", "response_size")):
            rate = part[f"{name}_throughput"]
            if rate:
                made.append({"test": f"{name}{part[size]}{at}", "mean": rate["mean"],
                             "std": rate["std"]})  # fmt: skip
    return {"version": found["version"], "rows": made}
