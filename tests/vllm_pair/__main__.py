"""`make test-vllm-pair`: two lab machines serve one model with a real vLLM, by mp and over Ray.

For each: converged, asked, converged again with nothing to do, a killed worker after which the pair
comes back in order, and the next converge accepts it; over Ray the same with its head killed and
its unit edited, and that the house's network reaches nothing of Ray. The last line is
`RESULT vllm-pair engine=real mp=ok|FAILED ray=ok|FAILED`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from sparkwright.members import engine_port
from tests.e2e import support
from tests.fleet.pair import Pair
from tests.lab.host import LabError, say
from tests.lab.lab import start_lab
from tests.lab.machine import Machine
from tests.vllm_pair.site import PAIRS, PairSite, prepare

VENV = "/opt/sparkwright/vllm/lab-cpu"


def first(site: PairSite, pair: Pair, word: str = "first") -> bool:
    """Converge from what is there; whether the head answers and the worker was there before it."""
    begin = time.monotonic()
    summary = support.converge(site.fleet)
    head, worker = site.lab.machines
    order = pair.started(worker) < pair.started(head)
    answer = pair.answer(head)
    took = time.monotonic() - begin
    print(f"{word}: changed={summary['changed']} {took:.0f} s, says {answer}, in order={order}")
    return bool(summary["changed"]) and answer == "SPARK" and order


def second(site: PairSite) -> bool:
    """Converge again; whether nothing changed and every process is the same."""
    before = support.processes(site.lab.machines)
    summary = support.converge(site.fleet)
    same = support.processes(site.lab.machines) == before
    code, report = support.check(site.fleet)
    for row in [*summary["changes"], *support.drift_of(report)]:
        print(f"second: {row}")
    print(f"second: changed={summary['changed']} check={code} same={same} of {len(before)}")
    return summary["changed"] == 0 and same and code == 0


def killed(site: PairSite, pair: Pair, machine: Machine, unit: str) -> bool:
    """Kill one of its units; whether the pair comes back in order and a converge accepts it."""
    head, worker = site.lab.machines
    (old,) = pair.show(head, "InvocationID")
    begin = time.monotonic()
    machine.ssh(f"sudo kill -9 $(systemctl show -p MainPID --value {unit})")
    answer = pair.until_answers(site.lab.machines, old)
    took = time.monotonic() - begin
    order = pair.started(worker) < pair.started(head)
    now = pair.show(head, "InvocationID")
    support.converge(site.fleet)
    same = pair.show(head, "InvocationID") == now
    code, report = support.check(site.fleet)
    for row in support.drift_of(report):
        print(f"killed: {row}")
    print(f"killed: back after {took:.0f} s, says {answer}, in order={order}, kept={same}")
    return answer == "SPARK" and order and same and code == 0


def edited(site: PairSite, pair: Pair, unit: str) -> bool:
    """Another text of one of the head's units, in force; whether a converge starts the model anew.

    The model's own unit and process are as wanted all the time.
    """
    head = site.lab.machines[0]
    old = pair.show(head, "InvocationID")
    line = "sed -i '/^\\[Service\\]/a Environment=LAB_EDIT=1'"
    head.ssh(f"sudo {line} /etc/systemd/system/{unit} && sudo systemctl daemon-reload")
    good = first(site, pair, "edited")
    return good and pair.show(head, "InvocationID") != old and second(site)


def both_in_ray(head: Machine, pair: Pair) -> bool:
    """Whether `ray status` on the head shows two nodes, and who has taken their GPUs."""
    port = engine_port(pair.port)
    ray = f"RAY_ADDRESS=192.168.100.10:{port} {VENV}/bin/ray status"
    out = head.ssh(ray).stdout
    nodes = [line for line in out.splitlines() if line.strip().startswith("1 node_")]
    used = [line.strip() for line in out.splitlines() if "/2.0 GPU" in line]
    print(f"ray status: {len(nodes)} active nodes, {used}")
    return len(nodes) == 2 and bool(used)


def closed(machines: Sequence[Machine], pair: Pair) -> bool:
    """Whether both parts of Ray are reached over the fabric, and not over the house's network."""
    head, worker = machines
    port = engine_port(pair.port)
    out = worker.ssh("ss -Hltn '( sport >= 20000 )' | grep -F '*:' | grep -o ':[0-9]*'").stdout
    raylet = out.split()[0].removeprefix(":")
    reached = [
        (f"{address}:{number}", _opens(where, address, number))
        for where, addresses, number in (
            (worker, (head.address, "192.168.100.10"), str(port)),
            (head, (worker.address, "192.168.100.11"), raylet),
        )
        for address in addresses
    ]
    print("closed:", *(f"{at} {'opens' if good else 'is closed'};" for at, good in reached))
    return [good for _, good in reached] == [False, True, False, True]


def _opens(where: Machine, address: str, port: str) -> bool:
    done = where.ssh(f"timeout 5 bash -c '</dev/tcp/{address}/{port}'", check=False)
    return done.returncode == 0


def outcomes(site: PairSite, how: str) -> bool:
    """Everything about one way of meeting."""
    pair = PAIRS[how]
    site.serve(pair)
    say(f"{how}: first converge")
    good = [first(site, pair)]
    if how == "ray":
        good.append(both_in_ray(site.lab.machines[0], pair))
        good.append(closed(site.lab.machines, pair))
    say(f"{how}: second converge")
    good.append(second(site))
    head, worker = site.lab.machines
    say(f"{how}: the worker is killed")
    good.append(killed(site, pair, worker, pair.unit))
    if how == "ray":
        say(f"{how}: Ray's head is killed")
        ray = pair.unit.replace(".", "-ray.", 1)
        good.append(killed(site, pair, head, ray))
        good.append(both_in_ray(head, pair))
        say(f"{how}: the unit of Ray's head is edited")
        good.append(edited(site, pair, ray))
    return all(good)


def tried(site: PairSite, how: str) -> bool:
    """`outcomes`, with what went wrong said; the other way is tried all the same."""
    try:
        return outcomes(site, how)
    except (AssertionError, LabError) as error:
        print(f"{how}: {error}", file=sys.stderr)
        for machine in site.lab.machines:
            print(PAIRS[how].journal(machine), file=sys.stderr)
        return False


def main(wanted: Sequence[str]) -> int:
    """Run it on two machines; 0 when everything held.

    + wanted: names out of `PAIRS`; all when empty
    """
    try:
        with start_lab(machines=2, fabric=2) as lab, TemporaryDirectory() as place:
            site = prepare(lab, Path(place))
            found = {how: tried(site, how) for how in wanted or PAIRS}
    except LabError as error:
        print(f"vllm-pair: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("vllm-pair: interrupted; everything was taken down", file=sys.stderr)
        return 130
    words = [f"{how}={'ok' if good else 'FAILED'}" for how, good in found.items()]
    print("RESULT vllm-pair engine=real", *words)
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
