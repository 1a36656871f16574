"""What the machines of one run share: one state in this process, and commands to other machines.

pyinfra runs an operation on all machines at once, in greenlets of one thread, or one machine
after the other (--serial). Both work: nobody waits for a machine that is not at work itself.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import gevent
from pyinfra import logger
from pyinfra.api import StringCommand

from sparkwright import image_copies, per_run, report, spread, spread_wire
from sparkwright.resources import Command
from sparkwright.spread import Item, Share

# Seconds that a machine which lacks something waits for the others' answers: one that has it must
# not be missed. Longer than an answer takes, except where every byte is hashed (our choice).
GATHER_S: Final = 10.0


@contextmanager
def asking(state: Any, host: Any) -> Iterator[None]:
    """One machine is asked, and what it says enters its share."""
    names = per_run.of(state, _asked)
    names.add(host.name)
    try:
        yield
    finally:
        names.discard(host.name)


def gather(state: Any) -> None:
    """Wait until all that are being asked have answered.

    With `-y` pyinfra asks nothing before it begins, and the first one that answers would go
    upstream for what its neighbour has.
    """
    until = time.monotonic() + GATHER_S
    while per_run.of(state, _asked) and time.monotonic() < until:
        time.sleep(0.02)


def share_of(state: Any, host: Any, item: Item | None, holds: bool) -> Share | None:
    """
    The run's state of an item, with this machine's own; None without an item, when switched off,
    or in a fleet of one.

    + holds: whether this machine has it whole
    """
    if item is None or not host.data.get("spread") or len(state.inventory) < 2:
        return None
    share = per_run.of(state, _shares).setdefault(item.key, Share(item))
    share.sees(host.name, holds)
    return share


def _asked(state: Any) -> set[str]:
    """Names of machines that are being asked at the moment whether they have something."""
    return set()


def _shares(state: Any) -> dict[str, Share]:
    """By the item's key."""
    return {}


def secret() -> bytes:
    """The laptop's secret, made once, readable by its user alone. Raises OSError."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    place = cache / "sparkwright" / "spread-secret"
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not place.exists():
        beside = place.with_name(f"{place.name}.{os.getpid()}")
        beside.touch(mode=0o600)
        beside.write_bytes(secrets.token_bytes(32))
        beside.replace(place)
    return place.read_bytes()


def token(share: Share) -> str:
    """The item's token."""
    return spread_wire.token(secret(), share.item)


def data_of(host: Any) -> Mapping[str, Any]:
    """A machine's data with `lan`: its address as this laptop reaches it."""
    return {**host.data.dict(), "lan": lan(host)}


def lan(host: Any) -> str:
    """An IP address where the fleet file or the open connection has one, else the name."""
    name = str(host.data.get("ssh_hostname") or host.name)
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    client: Any = getattr(host.connector, "client", None)
    try:
        return str(client.get_transport().getpeername()[0])
    except (AttributeError, OSError, TypeError, IndexError):  # a jump host is no socket
        return name


def run_on(host: Any, command: Command) -> tuple[bool, str]:
    """Run one command as root on any machine of the run; (whether it went well, its output)."""
    options = {name: host.data.get(name) for name in ("_sudo", "_sudo_password")}
    words = StringCommand(command.shell)
    try:
        done, out = host.run_shell_command(words, _stdin=command.stdin, **options)
    except Exception as error:  # a machine that is gone is none of the others' trouble
        return False, f"{type(error).__name__}: {error}"
    return bool(done), str(out.output)


def giving(data: Mapping[str, Any], share: Share) -> list[Command]:
    """Commands by which a machine gives what it has of the item."""
    return [
        spread_wire.announce(share.item, data["service_user"], token(share)),
        serving(data),
    ]


def serving(data: Mapping[str, Any]) -> Command:
    """The command that has a machine's server run."""
    own, copies = spread.own_addresses(data), image_copies.place(data["data_dir"])
    return spread_wire.serve(data["service_user"], data["spread_port"], own, copies)


def serves(state: Any, share: Share, name: str) -> bool:
    """Have a machine that has the item give it; False, and a note, when it cannot."""
    host = state.inventory.get_host(name)
    for command in giving(data_of(host), share):
        done, out = run_on(host, command)
        if not done:
            share.gone.add(name)
            report.note(host, f"cannot give {share.item.what} to others: {last(out)}")
            return False
    return True


def last(text: str) -> str:
    """The last line, for a message."""
    return (text.strip().splitlines() or ["no answer"])[-1]


def peers(state: Any, share: Share, host: Any) -> list[tuple[str, list[str]]]:
    """(name, addresses) of the machines that one asks."""
    own = data_of(host)
    names = share.peers(host.name)
    return [(n, spread.addresses(own, data_of(state.inventory.get_host(n)))) for n in names]


@contextmanager
def attending(state: Any, host: Any, share: Share) -> Iterator[list[bool]]:
    """One machine at work on an item; the block puts True into the list when it has it whole."""
    whole: list[bool] = []
    try:
        yield whole
    finally:
        share.ends(host.name, bool(whole))
        if share.over:
            end(state, share)


def end(state: Any, share: Share) -> None:
    """Nobody wants the item any more: the servers go, and with them the page cache."""
    names = sorted(share.giving - share.gone)
    # Who comes later has them give it again.
    share.giving.clear()
    share.lists.clear()
    hosts = [state.inventory.get_host(name) for name in names]
    jobs = [gevent.spawn(run_on, host, spread_wire.stop(share.item)) for host in hosts]
    gevent.joinall(jobs)
    logger.debug("%s: given to all", share.item.what)
