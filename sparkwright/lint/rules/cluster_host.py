"""Several Sparks: what a script or container does to links, tests and devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Launch
from sparkwright.lint.registry import file_rule, launch_rule

_PERF: Final = re.compile(
    r"(all_reduce|all_gather|sendrecv|reduce_scatter|alltoall|broadcast)_perf"
)


@file_rule(Verdict.WARN)
def link_not_kept(doc: Document, ctx: Context) -> Iterator[Found]:
    """Addresses and MTU set by hand are gone soon.

    `ip link set mtu` is undone by the next boot, `ip addr add` by NetworkManager within seconds
    on DGX OS. One side at MTU 9000 and the other at 1500: small messages work, large ones time out.

    Bad:
        sudo ip link set enp1s0f0np0 mtu 9000

    Good:
        /etc/netplan/40-cx7.yaml with addresses and mtu: 9000, then netplan apply

    Source: NVIDIA/dgx-spark-playbooks#25, #102; tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark#38
    """
    for command in doc.commands:
        text = " ".join([command.name, *(word.shape for word in command.argv[1:])])
        if re.match(r"(ip\b.*\bl\w*\s+set|ifconfig)\b.*\bmtu\b(?!\s+1500\b)", text):
            yield Found(
                command.at, "the MTU is 1500 again after the next boot",
                "write mtu: into /etc/netplan/40-cx7.yaml on every machine", sees=text,
            )  # fmt: skip
        elif re.match(r"ip\s+(-\d\s+)?a\w*\s+add\b.*\ben[pP]\w+", text):
            yield Found(
                command.at, "NetworkManager removes the address within seconds",
                "write it into /etc/netplan/40-cx7.yaml", sees=text,
            )  # fmt: skip


@file_rule(Verdict.WARN)
def large_nccl_test(doc: Document, ctx: Context) -> Iterator[Found]:
    """An NCCL test with buffers that take the machine's memory.

    A buffer of 16 GB takes about 32 GB on each node: with a model or a desktop in memory the box
    hangs.

    Bad:
        all_gather_perf -b 16G -e 16G

    Good:
        all_gather_perf -b 256M -e 1G

    Source: NVIDIA/dgx-spark-playbooks#102
    """
    for command in doc.commands:
        words = command.argv
        if not any(_PERF.search(word.shape) for word in words):
            continue
        for at, word in enumerate(words[:-1]):
            size = re.fullmatch(r"(\d+)([GT])B?", words[at + 1].text or "", re.I)
            if word.text in ("-e", "--maxbytes", "-b", "--minbytes") and size:
                gib = int(size[1]) * (1024 if size[2].upper() == "T" else 1)
                if gib > 4:
                    yield Found(
                        words[at + 1].at, f"{gib} GiB buffers take twice that on every machine",
                        f"write {word.text} 1G", sees=words[at + 1].text or "",
                    )  # fmt: skip
                    break


@launch_rule(Verdict.WARN)
def cluster_container(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A rank in a container needs the host's network, /dev/infiniband and locked memory.

    Without them NCCL falls back to TCP or does not find its peer.

    Bad:
        docker run --gpus all vllm/vllm-openai --model /srv/m -tp 2 --nnodes 2

    Good:
        docker run --gpus all --network host --ipc host --device /dev/infiniband \\
            --ulimit memlock=-1 vllm/vllm-openai --model /srv/m -tp 2 --nnodes 2

    Source: NVIDIA/dgx-spark-playbooks, two Sparks
    """
    nodes = ctx.number(launch, "nnodes")
    if not launch.container or nodes is None or nodes < 2:
        return
    text = " ".join(word.shape for word in launch.container)
    missing = []
    if not re.search(r"--net(work)?[= ]host", text):
        missing.append("--network host")
    if "--privileged" not in text:
        missing += [] if "/dev/infiniband" in text else ["--device /dev/infiniband"]
        missing += [] if "memlock" in text else ["--ulimit memlock=-1"]
    if missing:
        yield Found(
            launch.at, f"the rank lacks {', '.join(missing)}", f"add {' '.join(missing)}",
        )  # fmt: skip
