"""What `sparkwright weights` shows: a table for people, an object for programs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from sparkwright.status_text import age
from sparkwright.weights_claims import GIB, Snapshot, Store

COLOURS: Final = {"complete": "green", "damaged": "red", "absent": "red", "unfinished": "yellow"}
WORDS: Final = {0: "ok", 1: "attention", 2: "unknown"}


def code(stores: Sequence[Store]) -> int:
    """0 all is whole, 1 something is not, 2 a machine could not be asked."""
    return max((store.code for store in stores), default=0)


def table(stores: Sequence[Store], now: float) -> Table:
    """One line for each machine and snapshot.

    + now: unix time, from which ages are counted
    """
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("MACHINE", "WEIGHTS", "COMMIT", "GIB", "LAST USE", "STATE", "CLAIMED BY"):
        right = name in ("GIB", "LAST USE")
        made.add_column(name, justify="right" if right else "left", no_wrap=name != "CLAIMED BY")
    for store in stores:
        for one in store.snapshots:
            made.add_row(*_cells(store, one, now))
        if not store.snapshots:
            word = Text("unknown", "magenta") if store.why else Text("none")
            why = " ".join(store.why.split())
            made.add_row(Text(store.name), Text("-"), "", "", "", word, Text(why))
    return made


def _cells(store: Store, one: Snapshot, now: float) -> list[Text]:
    claims = ", ".join(f"{by} {name}" for by, name in one.claims)
    used = "now" if "process" in dict(one.claims) else f"{age(now - one.last_use)} ago"
    size = f"{one.bytes / GIB:.2f}" if one.bytes else ""
    cells = [store.name, one.repo, one.commit, size, used if one.bytes else ""]
    state = Text(one.state, COLOURS[one.state])
    return [*map(Text, cells), state, Text(claims or "nobody")]


def foot(stores: Sequence[Store]) -> list[str]:
    """What the table has no room for, and what to do."""
    return [line for store in stores if not store.why for line in _foot(store)]


def _foot(store: Store) -> Iterator[str]:
    for one in store.snapshots:
        for what in one.wrong:
            yield f"{store.name}: {one.directory}: {what}"
    if store.broken:
        yield f"mend it: sparkwright weights repair --limit {store.name}"
    frees = sum(one.frees for one in store.unclaimed)
    free = f"{store.name}: {(store.free or 0) / GIB:.1f} GiB free"
    if store.unclaimed:
        free += f"; nobody claims {len(store.unclaimed)} snapshot(s), {frees / GIB:.2f} GiB: "
        free += f"sparkwright weights prune --limit {store.name}"
    yield free
    if store.noatime:
        yield f"{store.name}: keeps no time of reading: last use is when files were written"
    for path in store.cut:
        yield f"{store.name}: {path}: left by a prune that was interrupted; prune again"
    for path in store.foreign:
        yield f"{store.name}: {path}: no snapshot of ours, left alone"


def pruned(stores: Sequence[Store], apply: bool) -> list[str]:
    """What a prune did, or would do."""
    lines, count, frees = [], 0, 0
    for store in stores:
        if store.why:
            lines.append(f"{store.name}: {store.why}")
        for one in sorted(store.snapshots, key=lambda one: one.last_use):
            if not one.fate:
                continue
            what = {"chosen": "would remove", "removed": "removed"}.get(one.fate)
            size = f"{one.frees / GIB:.2f} GiB"
            head = f"{store.name}: {one.directory}"
            lines.append(f"{head}: {what}, {size}" if what else f"{head}: stays, {one.fate}")
            count, frees = count + bool(what), frees + one.frees * bool(what)
        lines += [f"{store.name}: {path}: is left over, --apply removes it" for path in store.cut]
    ends = "gave" if apply else "would give"
    lines.append(f"{count} snapshot(s): {ends} back {frees / GIB:.2f} GiB")
    if not apply and (count or any(store.cut for store in stores)):
        lines.append("nothing was removed; --apply removes them")
    return lines


def pruned_code(stores: Sequence[Store], apply: bool) -> int:
    """0 nothing is left to remove, 1 something is or stayed, 2 a machine could not be asked."""
    if any(store.why for store in stores):
        return 2
    done = ("", "removed") if apply else ("",)
    left = any(one.fate not in done for store in stores for one in store.snapshots)
    return 1 if left or any(store.cut for store in stores) else 0


def as_json(stores: Sequence[Store], now: float, code: int) -> dict[str, Any]:
    """The object of docs/schemas/weights.json."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    return {"at": at, "state": WORDS[code], "machines": [_store(store) for store in stores]}


def _store(store: Store) -> dict[str, Any]:
    return {
        "name": store.name,
        "why": store.why,
        "free_bytes": store.free,
        "reading_is_timed": None if store.why else not store.noatime,
        "snapshots": [_snapshot(one) for one in store.snapshots],
        "foreign": list(store.foreign),
        "interrupted": list(store.cut),
    }


def _snapshot(one: Snapshot) -> dict[str, Any]:
    used = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.last_use))
    return {
        "directory": one.directory,
        "repo": one.repo,
        "commit": one.commit,
        "bytes": one.bytes,
        "frees_bytes": one.frees,
        "last_use": used if one.bytes else None,
        "state": one.state,
        "wrong": list(one.wrong),
        "claims": [{"by": by, "name": name} for by, name in one.claims],
        "prune": one.fate,
    }
