"""What a machine of the fleet serves, asked from this computer or from another machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sparkwright import bench_benchy, bench_drive, bench_measure, bench_model
from sparkwright.bench_drive import Driver, Target
from sparkwright.bench_measure import Subject
from sparkwright.bench_runs import Run
from sparkwright.cli_bench import asked
from sparkwright.cli_status import connect, look
from sparkwright.engines import key_file
from sparkwright.errors import SparkwrightError, nearest
from sparkwright.fleet_ssh import is_loopback
from sparkwright.place import place_of
from sparkwright.site import Planned, planned

if TYPE_CHECKING:
    from sparkwright.status_ask import Answer, Fleet
    from sparkwright.status_rows import MachineRow, Row

# Asked from the same machine instead of "every address".
ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
FAR: Final = "llama-benchy runs on this computer only, and --from asks from another machine"


@dataclass(frozen=True)
class Served:
    """The one that is measured.

    + host: pyinfra's; asker: the machine that asks, None for this computer
    """

    row: Row
    item: Planned
    host: Any
    asker: Any


def run(options: argparse.Namespace) -> Run:
    """Measure a recipe of the fleet. Raises SparkwrightError."""
    fleet = connect(options)
    served = find(fleet, options)
    told = _told(fleet, served, not options.no_benchy and not options.place)
    subject = _subject(served, told.said, options)
    with reached(served) as (address, port, driver):
        target = Target("http", address, port, served.item.recipe.served_name,
                        key=str(told.said["key"]))  # fmt: skip
        subject = replace(subject, target=target)
        made = bench_measure.measure(
            subject, asked(options), driver, options.anyway, options.gate
        )  # fmt: skip
        if options.place:
            return replace(made, benchy={"why": FAR})
        text = bench_model.tokenizer(told.said, options.tokenizer)
        rows = bench_benchy.run(target, asked(options), made, text, options)
        return replace(made, benchy=rows)


def find(fleet: Fleet, options: argparse.Namespace) -> Served:
    """The running unit of the recipe, and who asks. Raises SparkwrightError."""
    row = chosen(options.recipe, look(fleet))
    host = next(host for host in fleet.hosts if host.name == row.machine)
    items = planned(host.data.dict())
    item = next(item for item in items if item.recipe.name == row.recipe)
    if item.weights is None:
        raise SparkwrightError(f"{row.recipe}: holds no model, so there is nothing to measure")
    asker = _asker(fleet, options.place, host, item) if options.place else None
    return Served(row, item, host, asker)


def chosen(name: str, machines: Sequence[MachineRow]) -> Row:
    """The row that is measured. Raises SparkwrightError that says why there is not one."""
    every = [row for machine in machines for row in machine.rows]
    mine = [row for row in every if row.recipe == name]
    if not mine:
        hint = nearest(name, {row.recipe for row in every})
        raise SparkwrightError(f"bench: no machine serves {name}; {hint}")
    up = [row for row in mine if row.state == "running"]
    if len(up) > 1:
        names = ", ".join(row.machine for row in up)
        raise SparkwrightError(f"bench: {name} runs on {names}; choose one with --limit")
    if up:
        return up[0]
    said = [f"{row.machine}: {name} is {row.state}" + (f" ({row.why})" if row.why else "")
            for row in mine]  # fmt: skip
    raise SparkwrightError("\n".join(said) + "; see `sparkwright status`, then start it")


def _asker(fleet: Fleet, name: str, serving: Any, item: Planned) -> Any:
    """The machine of --from. Raises SparkwrightError when it cannot reach the server."""
    every = {host.name: host for host in fleet.state.inventory}
    if name not in every:
        raise SparkwrightError(f"--from {name}: no such machine; {nearest(name, every)}")
    if name != serving.name and is_loopback(item.listen):
        what = f"{item.recipe.name} listens on {item.listen} of {serving.name} only"
        hint = "leave --from out (an SSH tunnel is used), or set `listen`"
        raise SparkwrightError(f"--from {name}: {what}; {hint}")
    return every[name]


def _told(fleet: Fleet, served: Served, vocabulary: bool) -> Answer:
    """What the machine says of its model, with the API key. Raises SparkwrightError."""

    def question(name: str, data: Mapping[str, Any]) -> tuple[str, str]:
        weights = served.item.weights
        spec = {
            "directory": weights.directory if weights else "",
            "files": list(served.item.files),
            "key_file": key_file(served.item, place_of(data).etc_dir),
            "vocabulary": vocabulary,
        }
        return "bench_read.py", json.dumps(spec)

    answer = fleet.ask(question, [served.host])[0]
    if answer.said is None:
        raise SparkwrightError(f"{answer.name}: {answer.why}; see `sparkwright status`")
    return answer


def _subject(served: Served, told: Mapping[str, Any], options: argparse.Namespace) -> Subject:
    item, recipe = served.item, served.item.recipe
    model, why = bench_model.model(told, served.host.name)
    data = served.host.data.dict()
    each = float(data["memory_bandwidth"]) if options.bandwidth is None else options.bandwidth
    repo = item.weights.snapshot.repo if item.weights else None
    return Subject(
        where=f"{served.row.machine}: {recipe.name}",
        recipe=recipe.name,
        machine=served.row.machine,
        engine="vllm" if recipe.runs_vllm else recipe.engine,
        target=Target("http", "", 0, recipe.served_name),
        place=_place(served),
        bandwidth=bench_measure.together(each, recipe.spread),
        repo=repo,
        model=model,
        flags=recipe.flags,
        context=recipe.context,
        build=served.row.build,
        digest=served.row.digest,
        notes=(*((f"no roof: {why}",) if why else ()), *bench_model.unproved(served.row)),
    )


def _place(served: Served) -> str:
    if served.asker is not None:
        return str(served.asker.name)
    return "this computer" + ("" if _direct(served) else ", through SSH")


def _direct(served: Served) -> bool:
    """Does this computer reach the server without SSH? Behind a jump host it does not."""
    return not is_loopback(served.item.listen) and not served.host.data.dict().get(
        "ssh_config_file"
    )


@contextmanager
def reached(served: Served) -> Iterator[tuple[str, int, Driver]]:
    """Address and port as the asking side sees them, and the driver there."""
    listen, port = served.item.listen, served.item.port
    far = str(served.host.data.dict()["ssh_hostname"]) if listen in ANY else listen
    if served.asker is not None:
        own = served.asker.name == served.host.name
        yield (ANY.get(listen, listen) if own else far), port, _far(served.asker)
    elif _direct(served):
        yield far, port, bench_drive.here
    else:
        from sparkwright.bench_tunnel import tunnel

        with tunnel(served.host, ANY.get(listen, listen), port) as local:
            yield "127.0.0.1", local, bench_drive.here


def _far(host: Any) -> Driver:
    """A driver on a machine; the spec with the key goes by stdin."""

    def drive(spec: Mapping[str, Any]) -> Mapping[str, Any]:
        from sparkwright.facts import reads

        print(f"{host.name} asks; this takes minutes", file=sys.stderr, flush=True)
        try:
            host.connect(show_errors=False, raise_exceptions=True)
            words = reads("bench_load.py")
            _, output = host.run_shell_command(words, _stdin=json.dumps(spec))
        except Exception as error:  # whatever is wrong with that machine
            raise SparkwrightError(
                f"--from {host.name}: {error}; see `sparkwright status`"
            ) from None
        return bench_drive.said(str(output.stdout))

    return drive
