"""Drift of the build: its programs and libraries, its stamp, the link, and another commit."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from . import other_commit
from .row import Row
from .rows_units import ASKED, ASKED_OTHER, OTHER, UNIT
from .site import Site

ROOT = "/opt/sparkwright/llama.cpp"
ENTER = f"cd $(readlink -f {ROOT}/current)\n"
BOTH = (UNIT, OTHER)
# The process of a build that was made again has lost its program: it gets the new one.
REPLACED = tuple(f"{unit}: runs a program that was replaced, *" for unit in BOTH)
AGAIN = (*REPLACED, ASKED, ASKED_OTHER)
ANEW = tuple(
    pattern
    for unit in BOTH
    for pattern in (f"/etc/systemd/system/{unit}: content differs", f"{unit}: runs *, not *")
)


def builds(site: Site) -> set[str]:
    """Names of the builds that are installed, with what the link names in front of it."""
    return set(site.root(f"cd {ROOT}; ls -d */.stamp | grep -v current").splitlines())


def runs_installed(site: Site) -> None:
    """Both processes run the program that lies there now."""
    for unit in BOTH:
        program = site.root(f"readlink /proc/$(systemctl show -p MainPID --value {unit})/exe")
        assert program == site.root(f"{ENTER}echo $PWD/bin/llama-server"), program


def keep_builds(site: Site) -> None:
    """Note which builds there are, and how often the source was built."""
    site.kept["builds"] = json.dumps(sorted(builds(site)))


def none_built(site: Site) -> None:
    """No build came or went."""
    assert sorted(builds(site)) == json.loads(site.kept["builds"]), builds(site)


def one_more(site: Site) -> None:
    """The build of before is still there beside the new one, whole."""
    old = set(json.loads(site.kept["builds"]))
    new = builds(site) - old
    assert old < builds(site), builds(site)
    assert len(new) == 1, new
    for stamp in old:
        found = site.root(f"python3 /opt/sparkwright/lib/build_llama.py check {ROOT}/"
                          f"{stamp.removesuffix('/.stamp')}")  # fmt: skip
        assert json.loads(found) == {"wrong": [], "unread": []}, found
    runs_installed(site)


def other_source(site: Site) -> Path:
    """A fleet whose lock names another commit of the same tree."""
    keep_builds(site)
    lock = yaml.safe_load((site.folder / "artifacts.lock.yaml").read_text())
    lock["artifacts"]["llama.cpp-source"] |= other_commit.publish(site.lab)
    path = site.folder / "other.lock.yaml"
    path.write_text(yaml.safe_dump(lock))
    # Only spark-1: the other machine must not notice.
    fleet = site.variant("commit", artifacts={"from": "upstream", "lock": str(path)})
    whole = yaml.safe_load(fleet.read_text())
    del whole["sparks"]["spark-2"]
    fleet.write_text(yaml.safe_dump(whole, sort_keys=False))
    return fleet


ROWS = (
    Row(
        "llama-server replaced",
        f"{ENTER}cp bin/llama-bench bin/.new\nmv bin/.new bin/llama-server",
        (f"{ROOT}/*/bin/llama-server: changed",), AGAIN, BOTH, prove=runs_installed,
    ),
    Row(
        "a library beside it removed", f"{ENTER}rm bin/libggml-base.so.0.*",
        (f"{ROOT}/*/bin/libggml-base.so.0.*: missing",),
        (f"{ROOT}/*/bin/libggml-base.so*: *", *AGAIN), BOTH, prove=runs_installed,
    ),
    Row(
        "stamp of the build deleted", f"{ENTER}rm .stamp",
        (f"{ROOT}/*: no build of these inputs",), AGAIN, BOTH, prove=runs_installed,
    ),
    Row(
        "link moved", f"ln -sfn elsewhere {ROOT}/current",
        (f"{ROOT}/current: points to elsewhere, not *",),
        act=keep_builds, prove=none_built,
    ),
    Row(
        "another commit",
        "", (f"{ROOT}/*: no build of these inputs",),
        (f"{ROOT}/current: points to *, not *", *ANEW, ASKED, ASKED_OTHER), BOTH,
        fleet=other_source, prove=one_more,
    ),
)  # fmt: skip
