"""How machines are told to give and to take an item: files, units, tokens. Pure."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sparkwright.image_copies import SERVER, at_the_end
from sparkwright.jobs import Job
from sparkwright.paths import LIB, RUN
from sparkwright.resources import Command, quote, write_file
from sparkwright.spread import Item

PLACE: Final = f"{RUN}/spread"
UNIT: Final = SERVER


def token(secret: bytes, item: Item) -> str:
    """The item's token: as random as the laptop's secret, and the same in its next run, so that a
    job that outlived a run is still served."""
    return hmac.new(secret, item.key.encode(), hashlib.sha256).hexdigest()


def path_of(item: Item) -> str:
    """Where a machine is told about an item."""
    return f"{PLACE}/{item.key}.json"


def place(user: str) -> Command:
    """The directory that only the service account and root may read."""
    return Command(f"install -d {RUN} && install -d -m 0700 -o {user} -g {user} {PLACE}")


def announce(item: Item, user: str, secret: str) -> Command:
    """Let a machine give an item; the token goes through standard input.

    A tree's files are not known here: the machine lists them (spread_tree.py).
    """
    told = {
        "token": secret,
        "dirs": [item.place] if item.files else [],
        "packs": [[list(file)] for file in item.files],
    }
    text = json.dumps(told).encode()
    write = write_file(path_of(item), text, user, user, "0600")
    return Command(f"{place(user).shell} && ({write.shell})", stdin=write.stdin)


def offer(item: Item, user: str, secret: str, serving: Command) -> Command:
    """Let a machine list its tree and give it; prints the sha256 of the list at last.

    + serving: has the server run
    """
    program, *more = item.export or ("spread_tree.py",)
    words = ("python3", f"{LIB}/{program}", "offer", item.place, path_of(item), user, *more)
    give = f'listed=$({quote(*words)}) && {{ {serving.shell}; }} && echo "$listed"'
    if item.export:
        home = item.place.rsplit("/", 1)[0]
        own = f"install -d -m 0750 -o root -g {user} {quote(home.rsplit('/', 1)[0], home)}"
        # The lock from before the first byte until the server runs, whose end removes the tree,
        # also when the laptop is gone meanwhile.
        give = f"{own} && flock {quote(home)} sh -c {quote(f'{give} || {{ {_gone(item)}; }}')}"
    return Command(f"{place(user).shell} && {give}", stdin=secret)


def _gone(item: Item) -> str:
    return f"rm -rf {quote(item.place)}; exit 1"


def serve(user: str, port: int, addresses: Sequence[str], copies: str) -> Command:
    """Have the server run; it ends by itself.

    + copies: directory of what was exported for it, which goes with it
    """
    words = [
        "systemd-run",
        "--quiet",
        f"--unit={UNIT}",
        "--collect",
        f"--property=User={user}",
        "--property=ProtectSystem=strict",
        f"--property=ReadWritePaths={PLACE}",
        "--property=NoNewPrivileges=yes",
        "--property=Nice=5",
        "--property=OOMScoreAdjust=500",
        f"--property={at_the_end(copies)}",
        "python3",
        f"{LIB}/spread_serve.py",
        PLACE,
        str(port),
        *addresses,
    ]
    # Two items begin at once now and then: the second one's start may fail, and it runs then.
    runs = f"systemctl is-active --quiet {UNIT}"
    return Command(f"{runs} || {quote(*words)} || {runs}")


def stop(item: Item) -> Command:
    """Stop giving an item; the server goes when it was the last one."""
    # It drops the page cache of what it gave, so it goes before the files that say what that was.
    home = item.place.rsplit("/", 1)[0]
    exported = f"; rm -rf {quote(home)}" if item.export else ""
    return Command(
        f'if [ "$(ls {PLACE}/*.json 2>/dev/null)" = {quote(path_of(item))} ]; then '
        f"systemctl --quiet stop {UNIT} 2>/dev/null; fi; "
        f"rm -f {quote(path_of(item), f'{PLACE}/{item.key}.list')}{exported}"
    )


def joined(
    job: Job, item: Item, peers: Sequence[tuple[str, Sequence[str]]], port: int, manifest: str = ""
) -> Job:
    """A job that asks other machines first.

    + peers: (name, addresses); manifest: of a tree, "" for weights
    """
    spread: Mapping[str, Any] = {
        "item": path_of(item),
        "key": item.key,
        "peers": [[name, list(places)] for name, places in peers],
        "port": port,
        "go": f"{job.directory}/go",
        "manifest": manifest,
    }
    return replace(job, spec={**job.spec, "spread": spread})


def go(job: Job) -> Command:
    """Tell a job that its machine is the one that goes upstream."""
    return Command(f"touch {quote(f'{job.directory}/go')}")
