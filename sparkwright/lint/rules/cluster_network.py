"""Several Sparks: addresses, interfaces and NCCL's variables that disagree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Assignment, Document, Launch
from sparkwright.lint.registry import file_rule, launch_rule
from sparkwright.lint.rules.systemd_reading import assignments

_LOOPBACK: Final = re.compile(r"(localhost|127(\.\d+){3}|::1|\[::1\]|ip6-localhost)(:\d+)?")
_SOCKETS: Final = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
# Both halves of a cage: enp1s0f0np0 with rocep1s0f0, and their twins on the second controller.
_PORT: Final = re.compile(r"(?:en|roce)(p1s0|P2p1s0)f([01])(?:np[01])?")


def _ranks(launch: Launch, ctx: Context) -> bool:
    """Whether the launch is one rank of several machines."""
    nodes = ctx.number(launch, "nnodes")
    return launch.cluster or (nodes is not None and nodes > 1)


@launch_rule(Verdict.BLOCK)
def loopback_address(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A loopback address where the other machines have to connect to.

    Each rank then waits for itself until the rendezvous times out.

    Bad:
        vllm serve /srv/m -tp 2 --nnodes 2 --node-rank 1 --master-addr localhost

    Good:
        vllm serve /srv/m -tp 2 --nnodes 2 --node-rank 1 --master-addr 192.168.100.10

    Source: vllm-project/vllm#23691; NVIDIA/dgx-spark-playbooks, two Sparks
    """
    fix = "write the head's address on the fabric, such as 192.168.100.10"
    if not _ranks(launch, ctx):
        return
    for name in ("master-addr", "address", "node-ip-address"):
        option = ctx.option(launch, name)
        if (
            option is not None
            and option.value is not None
            and _LOOPBACK.fullmatch(option.text or "")
        ):
            yield Found(
                option.value.at, f"--{name} {option.text}: other machines cannot reach it", fix,
                sees=option.text or "",
            )  # fmt: skip
    for name in ("MASTER_ADDR", "VLLM_HOST_IP", "HOST_IP"):
        item = launch.get(name)
        if item is not None and _LOOPBACK.fullmatch(item.value or ""):
            yield Found(item.at, f"{name}={item.value}: other machines cannot reach it", fix,
                        sees=item.value or "")  # fmt: skip
    for name in _SOCKETS:
        item = launch.get(name)
        if item is not None and (item.value or "").lstrip("=") == "lo":
            yield Found(item.at, f"{name}=lo: nothing else is on that interface",
                        f"write {name}=enp1s0f0np0, or the one with the fabric's address",
                        sees="lo")  # fmt: skip


@launch_rule(Verdict.WARN)
def local_name(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A .local name of another Spark may answer with any of its addresses.

    mDNS gives the address of whichever interface it was asked on, and a box renames itself when
    two have one name.

    Bad:
        vllm serve /srv/m --nnodes 2 --node-rank 1 --master-addr spark-a.local

    Good:
        vllm serve /srv/m --nnodes 2 --node-rank 1 --master-addr 192.168.100.10

    Source: NVIDIA/dgx-spark-playbooks#56
    """
    for name in ("master-addr", "address", "node-ip-address"):
        option = ctx.option(launch, name)
        text = (option.text if option else None) or ""
        if option is not None and option.value is not None and re.search(r"\.local(:\d+)?$", text):
            yield Found(
                option.value.at, f"{text} may be any of that machine's addresses",
                "write its address on the fabric", sees=text,
            )  # fmt: skip


@launch_rule(Verdict.WARN)
def sockets_disagree(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """NCCL, gloo and tensorpipe each have a variable for the interface; they have to agree.

    With only NCCL's set, gloo picks one of its own and dies when it does not lead to the peer.

    Bad:
        NCCL_SOCKET_IFNAME=enp1s0f0np0 GLOO_SOCKET_IFNAME=eth0 vllm serve /srv/m --nnodes 2

    Good:
        NCCL_SOCKET_IFNAME=enp1s0f0np0 GLOO_SOCKET_IFNAME=enp1s0f0np0 \\
            TP_SOCKET_IFNAME=enp1s0f0np0 vllm serve /srv/m --nnodes 2

    Source: tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark#13; NVIDIA/dgx-spark-playbooks
    """
    items = {name: launch.get(name) for name in _SOCKETS}
    there = {n: i for n, i in items.items() if i is not None and i.value is not None}
    values = {n: (i.value or "").lstrip("=").split(",")[0] for n, i in there.items()}
    if not there or any(text.startswith("^") for text in values.values()):
        return
    first = next(iter(there))
    for name, value in values.items():
        if value != values[first]:
            yield Found(
                there[name].at, f"{name}={value}, but {first}={values[first]}",
                f"write {name}={values[first]}", sees=value,
            )  # fmt: skip
    missing = [name for name in _SOCKETS[:2] if items[name] is None]
    if missing and _ranks(launch, ctx) and not launch.env_unknown:
        yield Found(
            there[first].at, f"{', '.join(missing)} is not set: it picks an interface of its own",
            f"add {missing[0]}={values[first]}", sees=there[first].raw,
        )  # fmt: skip


def _set(doc: Document) -> dict[str, Assignment]:
    return {item.name: item for item in assignments(doc) if item.value}


@file_rule(Verdict.WARN)
def half_of_the_cable(doc: Document, ctx: Context) -> Iterator[Found]:
    """NCCL_IB_HCA with one of the two devices of a cable: half of the bandwidth.

    Each QSFP cage is two devices (rocep1s0f0 and roceP2p1s0f0). With one 98 Gb/s were measured,
    with both 161. NCCL_IB_DISABLE=1 leaves TCP, four times slower.

    Bad:
        NCCL_IB_HCA=rocep1s0f0

    Good:
        NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0

    Source: NVIDIA/dgx-spark-playbooks#35, #103
    """
    for item in _set(doc).values():
        if item.name == "NCCL_IB_DISABLE" and item.value in ("1", "true"):
            yield Found(
                item.at, "NCCL uses TCP: four times slower than RDMA",
                "remove it and write NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0", sees=item.value or "",
            )  # fmt: skip
        if item.name != "NCCL_IB_HCA":
            continue
        names = {name.split(":")[0].lstrip("=") for name in (item.value or "").split(",")}
        for name in sorted(names):
            match = re.fullmatch(r"roce(P2)?p1s0f([01])", name)
            twin = f"roce{'' if match[1] else 'P2'}p1s0f{match[2]}" if match else ""
            if match and twin not in names:
                both = ",".join(sorted({name, twin}, key=len))
                yield Found(
                    item.at, f"{name} is one half of the cable", f"write {item.name}={both}",
                    sees=item.value or "",
                )  # fmt: skip


@file_rule(Verdict.WARN)
def other_cage(doc: Document, ctx: Context) -> Iterator[Found]:
    """The interface and the RDMA device are of different cages.

    enp1s0f0np0 belongs to rocep1s0f0 and enp1s0f1np1 to rocep1s0f1. The names of one box do not
    fit another whose cable is in the other cage.

    Bad:
        NCCL_SOCKET_IFNAME=enp1s0f0np0
        NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1

    Good:
        NCCL_SOCKET_IFNAME=enp1s0f1np1
        NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1

    Source: spark-arena/sparkrun#135; NVIDIA/dgx-spark-playbooks, ibdev2netdev
    """
    found = _set(doc)
    socket, device = found.get("NCCL_SOCKET_IFNAME"), found.get("NCCL_IB_HCA")
    if socket is None or device is None:
        return
    here = {m[2] for m in _PORT.finditer(socket.value or "")}
    there = {m[2] for m in _PORT.finditer(device.value or "")}
    if here and there and not here & there:
        cage = sorted(there)[0]
        yield Found(
            socket.at, f"{socket.value} is of the other cage than {device.value}",
            f"write NCCL_SOCKET_IFNAME=enp1s0f{cage}np{cage}", sees=socket.value or "",
        )  # fmt: skip
