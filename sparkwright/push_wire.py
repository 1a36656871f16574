"""How new machines, with nothing of ours on them, are told to give and to take a bundle's contents.

Programs, token and spec go into /run/sparkwright by one command. Server and copy run as the
account that logs in, as the receiver of a push does: a copy goes on with what a cut push left, and
a push with what a cut copy left. Neither can become anything else nor see anybody's home. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkwright import spread_wire
from sparkwright.digest import digest
from sparkwright.facts import PYTHON
from sparkwright.jobs import Job
from sparkwright.paths import RUN, script
from sparkwright.push_site import Member, Site
from sparkwright.resources import Command, quote

LABEL: Final = "bundle-copy"
PLACE: Final = f"{RUN}/bundle"
LIB: Final = f"{PLACE}/lib"
GIVE: Final = f"{PLACE}/give"
SERVER: Final = "sparkwright-bundle-give.service"
COPIES: Final = f"sparkwright-{LABEL}-*.service"
INCOMING: Final = ".sparkwright/incoming"  # below the bundle's directory, as push_place.py has it
PROGRAMS: Final = (
    "job_progress.py",
    "push_copy.py",
    "spread_behind.py",
    "spread_item.py",
    "spread_job.py",
    "spread_link.py",
    "spread_part.py",
    "spread_serve.py",
    "spread_swarm.py",
)
PROPERTIES: Final = (
    "ProtectSystem=strict",
    "ProtectHome=tmpfs",
    "PrivateTmp=yes",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",  # the last two find names
    "SystemCallFilter=~@debug",
    "Nice=5",
    "OOMScoreAdjust=500",
)


def announce(site: Site, member: Member, place: str, secret: str) -> Command:
    """Have our programs on a machine, and let it give what it has and what it receives.

    + place: the bundle's directory there
    """
    told = {
        "token": secret,
        "dirs": [place],
        "packs": [[[where(member, c), site.sizes[c]]] for c in site.contents],
    }
    files = {f"{LIB}/{name}": script(name) for name in PROGRAMS}
    return put({**files, path_of(site): json.dumps(told)})


def where(member: Member, content: str) -> str:
    """Path of a content on a machine: its own name, or that on arrival."""
    return member.has.get(content, f"{INCOMING}/{content}")


def path_of(site: Site) -> str:
    """Where a machine is told what it gives."""
    return f"{GIVE}/{site.item.key}.json"


def put(files: Mapping[str, str], absent: Sequence[str] = ()) -> Command:
    """Write text files, all in one command; they go through standard input, as a token has to."""
    told = {"run": RUN, "files": dict(files), "absent": list(absent)}
    return Command(quote(*PYTHON, script("push_put.py")), stdin=json.dumps(told))


def serve(place: str, port: int, addresses: Sequence[str]) -> Command:
    """Have the server run; it ends by itself.

    That of weights has the same port. One that runs at this moment was left by a dead run, and this
    run's own begins later.
    """
    reads = (f"BindReadOnlyPaths={place}", f"ReadWritePaths={GIVE}")
    words = ("python3", "-B", f"{LIB}/spread_serve.py", GIVE, str(port), *addresses)
    runs = f"systemctl is-active --quiet {SERVER}"
    begin = f"systemctl --quiet stop {spread_wire.UNIT} 2>/dev/null; {_unit(SERVER, reads, words)}"
    return Command(f"{runs} || {{ {begin}; }} || {runs}")


def copy_job(
    site: Site, contents: Sequence[str], place: str, peers: Sequence[Mapping[str, Any]], port: int
) -> Job:
    """The work that copies contents from other machines.

    + peers: name, addresses, and `has`: numbers of contents that it should have
    """
    wanted = set(contents)
    spec: dict[str, Any] = {
        "incoming": f"{place}/{INCOMING}",
        "packs": [[c, site.sizes[c]] if c in wanted else None for c in site.contents],
        "has": {peer["name"]: peer["has"] for peer in peers},
        "spread": {
            "item": path_of(site),
            "key": site.item.key,
            "peers": [[peer["name"], peer["addresses"]] for peer in peers],
            "port": port,
            "go": f"{RUN}/{LABEL}/go",
        },
    }
    return Job(LABEL, digest(spec), ("push_copy.py",), spec)


def start(job: Job) -> list[Command]:
    """Begin a copy; none of its label runs (stop_copies)."""
    spec, done = f"{job.directory}/spec.json", f"{job.directory}/done"
    progress, incoming = f"{job.directory}/progress", job.spec["incoming"]
    text = json.dumps({**job.spec, "progress": progress})
    mark = f'python3 -B "$@" && printf %s {job.digest} >{quote(done)}'
    words = ("sh", "-c", mark, "sh", f"{LIB}/push_copy.py", spec)
    writes = (f"BindPaths={incoming}", f"ReadWritePaths={incoming} {job.directory}")
    return [
        put({spec: text}, [done, progress, str(job.spec["spread"]["go"])]),
        Command(_unit(job.unit, writes, words)),
    ]


def _unit(name: str, paths: Sequence[str], words: Sequence[str]) -> str:
    """Begin a transient unit as the account that logs in; sudo says which one that is."""
    properties = [f"--property={text}" for text in (*PROPERTIES, *paths)]
    account = '--property=User="${SUDO_UID:-0}" --property=Group="${SUDO_GID:-0}"'
    begin = quote("systemd-run", "--quiet", f"--unit={name}", "--collect", *properties)
    return f"{begin} {account} {quote(*words)}"


def stop(job: Job) -> Command:
    """End a copy."""
    return Command(f"systemctl --quiet stop {quote(job.unit)}")


def stop_copies() -> Command:
    """End copies that a dead run left: what writes to a file must be alone."""
    return Command(f"systemctl --quiet stop {quote(COPIES)}")


def end() -> Command:
    """Give nothing any more; the server drops the page cache of what it gave before it goes."""
    return Command(
        f"systemctl --quiet stop {SERVER} {quote(COPIES)} 2>/dev/null; "
        f"rm -rf {quote(PLACE, f'{RUN}/{LABEL}')}"
    )
