"""Trouble at a chosen place: a full disk at three points, and a dpkg that lost its power."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.e2e import support
from tests.kills.deaths import Site, Wrong, change, first, mend
from tests.kills.program import CONVERGE_S, NOTICE_S, Converge

GPT_OSS, LLAMA = "tiny-gpt-oss-llamacpp", "tiny-llama-llamacpp"
FULL = "no space left|bytes are missing"
# A small file system at the place, with what is there now, filled up but for some bytes.
SMALL = """
set -e
mkdir -p {place}; cp -a {place} /run/copy
mount -t tmpfs -o size={size},mode=755 small {place}
cp -a /run/copy/. {place}/; rm -rf /run/copy
{fill}
"""
FILL = "dd if=/dev/zero of={place}/ballast bs=4k status=none 2>/dev/null || echo full"


@contextmanager
def full(site: Site, place: str, size: str, fill: bool) -> Iterator[None]:
    """A place on the machine without space, until the block ends.

    + size: as mount wants it; what is there already counts
    + fill: take what is left of it as well
    """
    text = FILL.format(place=place) if fill else ""
    script = SMALL.format(place=place, size=size, fill=text)
    site.machine.ssh("sudo sh", input=script, timeout=60)
    try:
        yield
    finally:
        site.machine.ssh(f"sudo umount {place}", timeout=60)


def refused(site: Site, name: str, serving: dict[str, support.Process]) -> str:
    """A run that must fail for want of space; what served before goes on serving."""
    run = Converge(site.fleet, site.home / f"{name}-full.log")
    code = run.end(CONVERGE_S)
    said = [line.strip() for line in run.text().splitlines()]
    clear = [line for line in said if any(word in line.lower() for word in FULL.split("|"))]
    if code != 2 or not clear:
        raise Wrong(f"on a full disk it ended with {code}:\n{run.text()[-4000:]}")
    if support.processes([site.machine]) != serving:
        raise Wrong(f"the service was touched: {serving} before")
    if support.ask(site.machine, 8080, "tiny-gpt-oss").strip() != "SPARK":
        raise Wrong("the service does not answer any more")
    return clear[-1][:160]


def _without_space(
    site: Site, name: str, place: str, size: str, fill: bool, new: tuple[list[object], str]
) -> str:
    first(site, name)
    serving = support.processes([site.machine])
    serve, flag = new
    change(site, serve, flag)
    with full(site, place, size, fill):
        said = refused(site, name, serving)
    mend(site, name)
    return said


def build(site: Site) -> str:
    """Another compiler flag, and no room where it builds."""
    place = "/srv/sparkwright/build"
    return _without_space(site, "full-build", place, "40m", False, ([GPT_OSS], "-DGGML_LTO=OFF"))


def download(site: Site) -> str:
    """Another recipe, and no room for its weights."""
    place = "/srv/sparkwright/weights/sparkwright-lab/tiny-llama-GGUF"
    return _without_space(site, "full-download", place, "64k", False, ([GPT_OSS, LLAMA], ""))


def unit(site: Site) -> str:
    """Another port, and no room for the unit's text."""
    new: list[object] = [{"recipe": GPT_OSS, "port": 8080}, {"recipe": LLAMA, "port": 8099}]
    return _without_space(site, "full-unit", "/etc/systemd/system", "256k", True, (new, ""))


def dpkg(site: Site) -> str:
    """The power goes while dpkg unpacks; the next run finishes what it left."""
    machine = site.machine
    machine.reset()
    run = Converge(site.fleet, site.home / "dpkg-first.log")
    deadline = time.monotonic() + CONVERGE_S
    while not _unfinished(site):
        if time.monotonic() > deadline or run.process.poll() is not None:
            raise Wrong(f"dpkg was never seen at work:\n{run.text()[-2000:]}")
    machine.link_down()
    machine.kill()
    left = _unfinished(site)
    machine.link_up()
    machine.boot()
    run.end(NOTICE_S)
    mend(site, "dpkg")
    return f"dpkg was interrupted with {', '.join(sorted(left))}"


def _unfinished(site: Site) -> set[str]:
    """Packages that dpkg is at, as its notes on the machine's disk say: "gcc: half-installed"."""
    folder, found = site.machine.root / "var/lib/dpkg", set()
    for path in [folder / "status", *(folder / "updates").iterdir()]:
        # dpkg merges and removes its notes while we look.
        with contextlib.suppress(FileNotFoundError):
            text = path.read_text(errors="replace")
            rows = re.findall(
                r"^Package: (\S+)\nStatus: install (?:ok|reinstreq) (\S+)$", text, re.M
            )
            found |= {f"{name}: {state}" for name, state in rows if state != "installed"}
    return found


CASES: dict[str, Callable[[Site], str]] = {
    "full-build": build,
    "full-download": download,
    "full-unit": unit,
    "dpkg": dpkg,
}
