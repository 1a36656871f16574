"""The life of a run: its record and folder, opened under a lock and always closed."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from pathlib import Path

from . import network
from .host import PROJECT, LabError, cache_dir, locked
from .records import (
    MARKER,
    RECORDS,
    Record,
    boot_id,
    clean_abandoned,
    load_all,
    start_time,
)

LOCK = RECORDS / "lock"


def open_run(name: str | None, owned: bool) -> Record:
    """Clean what dead labs left, then claim a name, a subnet and a folder.

    + name: lower-case letters, digits and "-"; None for a random one
    + owned: whether the lab ends with this process; otherwise only `close_run` ends it

    **Raises**: `LabError` when the name is taken or no name at all.
    """
    run_id = name or secrets.token_hex(4)
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,31}", run_id):
        raise LabError(f"--name {run_id}: use lower-case letters, digits and '-', at most 32")
    with locked(LOCK):
        clean_abandoned(cache_dir())
        if any(record.run_id == run_id for record in load_all()):
            raise LabError(f"lab {run_id} is up; take it down or choose another name")
        tag = hashlib.sha256(run_id.encode()).hexdigest()[:6]
        home = cache_dir() / "runs" / run_id
        owner = (os.getpid(), start_time(os.getpid()) or "") if owned else None
        record = Record(run_id, tag, str(home), boot_id(), owner)
        record.checkout = str(PROJECT)
        record.bridge = f"swl{tag}"
        record.subnet = network.free_subnet(tag)
        record.save()
        home.mkdir(parents=True)
        (home / MARKER).write_text("Made by sparkwright's test lab, removed with it.\n")
        network.create_bridge(record)
    return record


def find_runs(name: str | None) -> list[Record]:
    """The labs that are up, or the one of that name.

    **Raises**: `LabError` when there is none of that name.
    """
    records = load_all()
    if name is None:
        return records
    chosen = [record for record in records if record.run_id == name]
    if not chosen:
        up = ", ".join(record.run_id for record in records) or "none"
        raise LabError(f"no lab {name} is up; up: {up}")
    return chosen


def clean_cache() -> Path:
    """Remove the whole cache folder.

    **Raises**: `LabError` while a lab uses it.
    """
    cache = cache_dir()
    with locked(LOCK):
        clean_abandoned(cache)
        users = [record.run_id for record in load_all() if cache in Path(record.directory).parents]
        if users:
            raise LabError(f"{cache}: in use by lab {', '.join(users)}; take it down first")
        shutil.rmtree(cache)
    return cache
