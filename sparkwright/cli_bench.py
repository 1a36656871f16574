"""`sparkwright bench`: how fast is what runs, and how fast could it be?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sparkwright import bench_store, bench_text
from sparkwright.bench_drive import DEPTHS, USERS, Asked, numbers
from sparkwright.bench_runs import Run
from sparkwright.cli_status import parser as status_parser
from sparkwright.errors import SparkwrightError

EPILOG = """exit code: 0 measured, 1 below the gate or a request failed, 2 not measured
example: sparkwright bench gpt-oss-120b-llamacpp --html bench.html
  sparkwright bench gpt-oss-120b --from spark-2 --users 1,8,64
  sparkwright bench gpt-oss-120b --compare
  sparkwright bench --url http://127.0.0.1:8080 --model-file model.gguf --bandwidth 4800"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = status_parser("bench", "Measure what runs: decoding beside its roof, users at once.")
    made.epilog, made.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    made.add_argument("recipe", metavar="RECIPE", nargs="?", help="what to measure")
    made.set_defaults(timeout=60.0)
    _what(made.add_argument_group("what is measured"))
    _where(made.add_argument_group("where"))
    _shown(made.add_argument_group("what becomes of it"))
    return made


def _what(made: Any) -> None:
    add = made.add_argument
    add("--depths", type=_list(0), default=DEPTHS, metavar="N,N",
        help="tokens in the context before the prompt; default 0,4096,16384")  # fmt: skip
    add("--users", type=_list(1), default=USERS, metavar="N,N",
        help="users at once; default 1,2,4,8,16,32,64")  # fmt: skip
    for name, default, text in (
        ("--pp", 2048, "tokens of the prompt"), ("--tg", 64, "tokens generated behind it"),
        ("--repeat", 3, "times at each depth"), ("--words", 256, "words of a user's question"),
        ("--max-tokens", 128, "tokens of a user's answer"),
    ):  # fmt: skip
        add(name, type=_one, default=default, metavar="N", help=f"{text}; default {default}")
    add("--quick", action="store_true", help="depth 0, and 1 and 4 users")
    add("--anyway", action="store_true", help="even while others are active")
    add("--no-benchy", action="store_true", help="without llama-benchy")
    add("--tokenizer", type=Path, metavar="PATH",
        help="tokenizer.json for llama-benchy; default: the model's own")  # fmt: skip
    add("--bandwidth", type=float, metavar="GB/S", help="of the memory; default: a Spark's 273")
    add("--gate", type=float, metavar="SHARE",
        help="share of the roof to reach; default 0.59 on a Spark, else none")  # fmt: skip


def _where(made: Any) -> None:
    add = made.add_argument
    add("--from", dest="place", metavar="MACHINE",
        help="the machine that asks; default: this computer")  # fmt: skip
    add("--url", metavar="URL", help="an endpoint without a fleet")
    add("--model", metavar="NAME", help="its name there; default: what it lists")
    add("--model-file", "--gguf", type=Path, metavar="PATH",
        help="its GGUF file or directory, for the roof")  # fmt: skip
    add("--key-file", type=Path, metavar="FILE", help="file with its API key")
    add("--llama-bench", type=Path, metavar="FILE",
        help="output of `llama-bench -o json`, measured already")  # fmt: skip


def _shown(made: Any) -> None:
    add = made.add_argument
    add("--html", type=Path, metavar="FILE", help="also write one page with plots")
    add("--results", type=Path, metavar="FILE",
        help="where runs are kept; default ~/.local/state/sparkwright/bench.jsonl")  # fmt: skip
    add("--compare", nargs="*", metavar="RUN",
        help="show two kept runs, or the last two; measures nothing")  # fmt: skip


def _list(least: int) -> Callable[[str], tuple[int, ...]]:
    def read(text: str) -> tuple[int, ...]:
        try:
            return numbers(text, least)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text} is no list of numbers from {least} on, such as 1,4,16"
            ) from None

    return read


def _one(text: str) -> int:
    return _list(1)(text)[0]


def main(argv: Sequence[str]) -> int:
    """Measure, or show what was measured; see EPILOG for the exit codes."""
    options = parser().parse_args(list(argv))
    kept = options.results or bench_store.default_path()
    if options.compare is not None:
        return _compare(kept, options)
    run = _measured(options)
    bench_store.keep(kept, run)
    if options.html:
        from sparkwright import bench_html

        earlier = [old for old in bench_store.load(kept) if old.recipe == run.recipe]
        options.html.write_text(bench_html.page(run, earlier[-2:-1]))
    print(json.dumps(run.as_json(), indent=1) if options.json else "\n".join(bench_text.lines(run)))
    return 1 if run.failed or run.slow else 0


def _measured(options: argparse.Namespace) -> Run:
    if options.llama_bench:
        from sparkwright import bench_llama_bench

        return bench_llama_bench.run(options)
    if options.url:
        from sparkwright import bench_url

        return bench_url.run(options)
    if not options.recipe:
        raise SparkwrightError("bench: what is to be measured? Give a RECIPE, or --url")
    from sparkwright import bench_fleet

    return bench_fleet.run(options)


def asked(options: argparse.Namespace) -> Asked:
    """What the options ask for."""
    depths, users = ((0,), (1, 4)) if options.quick else (options.depths, options.users)
    return Asked(depths, users, options.pp, options.tg, options.repeat, options.words,
                 options.max_tokens)  # fmt: skip


def _compare(kept: Path, options: argparse.Namespace) -> int:
    if len(options.compare) not in (0, 2):
        raise SparkwrightError("--compare: give two runs, or none for the last two")
    a, b = bench_store.pick(bench_store.load(kept), options.recipe, options.compare)
    rows = bench_store.compared(a, b)
    if options.json:
        print(json.dumps(bench_text.compare_json(a, b, rows), indent=1))
    else:
        print("\n".join(bench_text.comparison(a, b, rows)))
    if not rows:
        print("bench: the two runs have no figure in common", file=sys.stderr)
        return 2
    return 0
