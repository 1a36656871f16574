"""One measurement: from what is to be measured, through a driver, to a run that can be kept."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkwright import bench_drive, bench_roof, bench_runs
from sparkwright.bench_drive import Asked, Driver, Target
from sparkwright.bench_runs import Depth, Level, Run
from sparkwright.errors import SparkwrightError
from sparkwright.model_shape_files import Model
from sparkwright.recipe_types import Spread
from sparkwright.roofline import GB10_BANDWIDTH, read_per_token

SECRET = re.compile(r"key|token|secret|password", re.I)


@dataclass(frozen=True)
class Subject:
    """What is measured.

    + where: for messages
    + repo: the model's name on the Hub, for public figures; None when it is not known
    + context: tokens of one request; None when that is not known
    + bandwidth: bytes/s of the machine, or of all machines of a cluster together
    """

    where: str
    recipe: str
    machine: str
    engine: str
    target: Target
    place: str
    bandwidth: float
    repo: str | None = None
    model: Model | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    context: int | None = None
    build: str | None = None
    digest: str | None = None
    notes: tuple[str, ...] = ()


def bytes_s(asked: float | None) -> float:
    """Bytes/s out of GB/s; a Spark's where none are said. Raises SparkwrightError."""
    if asked is None:
        return GB10_BANDWIDTH
    if not asked > 0:
        raise SparkwrightError(f"--bandwidth {asked:g}: is none; give GB/s, such as 273")
    return asked * 1e9


def together(each: float, spread: Spread) -> float:
    """
    Bytes/s of the machines that a token is computed on: with tensor parallelism each reads its part
    at the same time, with a pipeline one after the other. No gate is known for several: what they
    wait for each other is not the memory's (gpt-oss-120b on two: 75.96 tok/s, Spark Arena).

    + each: GB/s of one machine
    """
    return bytes_s(each) * spread.tensor_parallel


def measure(
    subject: Subject, asked: Asked, driver: Driver, anyway: bool, gate: float | None
) -> Run:
    """
    Drive the endpoint and judge what came.

    + gate: as the user asked for it; None takes a Spark's on a Spark

    Raises SparkwrightError when nothing could be measured.
    """
    vocab = subject.model.shape.vocab if subject.model else 0
    lengths, notes = asked.prompts(subject.context)
    spec = bench_drive.spec_of(subject.target, asked, lengths, vocab, anyway)
    found = driver(spec)
    why = bench_drive.refused(found, subject.where)
    if why:
        raise SparkwrightError(why)
    depths, levels = bench_drive.measured(found)
    others = bench_runs.others(found)
    notes += _notes(found, others, asked)
    made = run_of(subject, depths, levels, asked, gate)
    return replace(made, others=others, notes=(*made.notes, *notes))


def _notes(found: Mapping[str, Any], others: float | None, asked: Asked) -> list[str]:
    notes = []
    if others is None:
        notes.append("the engine counts no tokens: others may have been active meanwhile")
    elif others > asked.max_tokens:
        notes.append(f"{others:.0f} tokens were generated for others meanwhile: not alone")
    if not found["ignores_eos"]:
        notes.append("the server refuses ignore_eos: answers may be shorter than asked for")
    if max(asked.users, default=0) > 8 * (found["clients"] or 1):
        notes.append(f"{found['clients']} cores asked for {max(asked.users)} users")
    return notes


def run_of(
    subject: Subject,
    depths: tuple[Depth, ...],
    levels: tuple[Level, ...],
    asked: Asked,
    gate: float | None,
) -> Run:
    """A run out of what was measured, with roofs, public figures and causes."""
    now, model = time.time(), subject.model
    wanted = bench_roof.gate_for(subject.bandwidth, gate)
    known = model is not None and bool(model.tensors)
    at = time.gmtime(now)
    made = Run(
        id=f"{time.strftime('%Y%m%d-%H%M%S', at)}-{uuid.uuid4().hex[:4]}",
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", at),
        recipe=subject.recipe,
        machine=subject.machine,
        engine=subject.engine,
        model=subject.repo or subject.target.model,
        build=subject.build,
        digest=subject.digest,
        place=subject.place,
        settings=settings(subject, asked),
        depths=bench_roof.judged(depths, model, subject.flags, asked.tg, subject.bandwidth),
        levels=levels,
        bandwidth=subject.bandwidth / 1e9,
        read_gb=read_per_token(model.tensors, model.shape) / 1e9 if model and known else None,
        gate=wanted if known else None,
        references=bench_roof.references(subject.repo, subject.engine),
        notes=subject.notes,
    )
    if not made.slow:
        return made
    found = bench_roof.causes(subject.recipe, subject.engine, subject.flags, subject.machine)
    return replace(made, causes=found)


def settings(subject: Subject, asked: Asked) -> dict[str, Any]:
    """What was asked for and how the engine was started; nothing that is named like a secret."""
    flags = {f"--{name}": value for name, value in sorted(subject.flags.items())
             if not SECRET.search(name) or name.startswith(("max-", "cache-type"))}  # fmt: skip
    return {"pp": asked.pp, "tg": asked.tg, "repeat": asked.repeat, "words": asked.words,
            "max_tokens": asked.max_tokens, "context": subject.context, **flags}  # fmt: skip
