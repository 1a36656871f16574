"""`sparkwright weights`: what lies on the machines, who claims it; prove, repair, prune."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkwright.cli_status import connect
from sparkwright.cli_status import parser as status_parser

if TYPE_CHECKING:
    from sparkwright.status_ask import Fleet
    from sparkwright.weights_claims import Store

ACTIONS = ("list", "verify", "repair", "prune")
GIB = 2**30
DAY_S = 86400
LOOKING_S, HASHING_S = 60.0, 900.0  # 65 GB are to be hashed
EPILOG = """list    sizes, last use, and who claims them: a recipe, a unit, a pin, a process
verify  compares every file with what was published; --deep hashes every byte
repair  hashes every byte of what recipes want, and fetches the files that are wrong, no others
prune   what nobody claims, least recently used first; only --apply removes anything

exit code: 0 all is whole, or nothing is left to prune; 1 something is not; 2 a machine could not
be asked
example: sparkwright weights prune --free-gib 200 --limit spark-1"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = status_parser("weights", "What lies on the machines, who claims it, and is it whole?")
    made.epilog, made.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    made.add_argument("action", nargs="?", choices=ACTIONS, default="list", metavar="ACTION",
                      help="list (the default), verify, repair or prune")  # fmt: skip
    made.add_argument("--deep", action="store_true", help="verify: hash every byte")
    made.add_argument("--apply", action="store_true", help="prune: remove what is shown")
    made.add_argument("--free-gib", type=_size, metavar="G",
                      help="prune: only until so much is free")  # fmt: skip
    made.add_argument("--unused-days", type=_size, metavar="D",
                      help="prune: only what nobody has read for so long")  # fmt: skip
    made.set_defaults(timeout=None)  # by what is done, see `checked`
    return made


def _size(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is no number of 0 or more")
    return value


def checked(argv: Sequence[str]) -> argparse.Namespace:
    """The options, refused where one means nothing for the action."""
    made = parser()
    options = made.parse_args(list(argv))
    prune = {"--apply": options.apply, "--free-gib": options.free_gib is not None,
             "--unused-days": options.unused_days is not None}  # fmt: skip
    wrong = [word for word, given in prune.items() if given and options.action != "prune"]
    wrong += ["--deep"] if options.deep and options.action not in ("verify", "repair") else []
    if wrong:
        made.error(f"{', '.join(wrong)}: means nothing for {options.action}")
    if options.timeout is None:
        options.timeout = HASHING_S if options.deep or options.action == "repair" else LOOKING_S
    return options


def main(argv: Sequence[str]) -> int:
    """Do what the options say; see EPILOG for the exit codes."""
    options = checked(argv)
    fleet = connect(options)
    if options.action == "repair":
        return _repair(fleet, options)
    more = _limits(options) if options.action == "prune" else {}
    return _show(ask(fleet, "deep" if options.deep else "fast", **more), options)


def _limits(options: argparse.Namespace) -> dict[str, Any]:
    days, gib = options.unused_days, options.free_gib
    return {"apply": options.apply, "older_s": None if days is None else days * DAY_S,
            "want_free": None if gib is None else round(gib * GIB)}  # fmt: skip


def ask(fleet: Fleet, check: str, **more: Any) -> list[Store]:
    """Every machine's weights."""
    from sparkwright import weights_claims

    def question(name: str, data: Mapping[str, Any]) -> tuple[str, str]:
        return weights_claims.question(data, check, **more)

    return [weights_claims.store(answer) for answer in fleet.ask(question)]


def _show(stores: Sequence[Store], options: argparse.Namespace) -> int:
    from sparkwright import weights_text

    prune, now = options.action == "prune", time.time()
    code = weights_text.pruned_code(stores, options.apply) if prune else weights_text.code(stores)
    if options.json:
        print(json.dumps(weights_text.as_json(stores, now, code), indent=1))
    elif prune:
        print("\n".join(weights_text.pruned(stores, options.apply)))
    else:
        _print(stores, now)
    return code


def _print(stores: Sequence[Store], now: float) -> None:
    from rich.console import Console

    from sparkwright import weights_text

    console = Console(width=None if sys.stdout.isatty() else 240, highlight=False)
    console.print(weights_text.table(stores, now))
    for line in weights_text.foot(stores):
        console.print(line, markup=False, soft_wrap=True)


def _repair(fleet: Fleet, options: argparse.Namespace) -> int:
    """Hash everything, then let the weights task fetch what is wrong, as a converge would."""
    from sparkwright import pyinfra_run

    bad = [store for store in ask(fleet, "deep") if store.broken]
    for store in bad:
        for one in store.broken:
            words = ", ".join(one.wrong) or "no manifest"
            print(f"{store.name}: {one.directory}: {words}", file=sys.stderr)
    if bad:
        limits = [word for store in bad for word in ("--limit", store.name)]
        more = [word for pair in options.data for word in ("--data", pair)]
        pyinfra_run.run(["-y", *limits, *more], options.json, options.inventory, deploy="repair.py")
    # Not from what that run said: the files are asked again.
    return _show(ask(fleet, "fast"), options)
