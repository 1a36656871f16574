"""Drift between the fleet's files and the machine, a stranger, the clock, and a reboot."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from tests.lab.fleetfile import RECIPES

from .row import Row
from .rows_build import keep_builds, none_built
from .rows_units import ASKED, ASKED_OTHER, FILE, OTHER, UNIT
from .site import GPT, SERVE, Site

# fake_stranger: another program at the port of a unit that is down.
STRANGER = (
    f"systemctl stop {UNIT}\n"
    "systemd-run --quiet --unit=fake-stranger.service --collect "
    "python3 -m http.server --bind 127.0.0.1 8080\nsleep 1\n"
)
# fake_clock: the lab's machines share one clock, so the machine's python is told another time, in a
# module that every probe imports (a sitecustomize.py would not reach a `python3 -I -S`).
CLOCK, KEPT = "/usr/lib/python3.11/json/__init__.py", "/run/json-as-it-was"
FAKE_CLOCK = (
    f"cp -p {CLOCK} {KEPT}\n"
    f"printf 'import time\\n_real = time.time\\ntime.time = lambda: _real() + 3600\\n' >>{CLOCK}\n"
)


def flagged(site: Site) -> Path:
    """A fleet whose recipe says one flag otherwise; no build may come of it."""
    keep_builds(site)
    folder = site.folder / "recipes"
    shutil.copytree(RECIPES, folder, dirs_exist_ok=True)
    path = folder / f"{GPT}.yaml"
    text = path.read_text()  # as text: PyYAML would write `on` as `true`
    path.write_text(text.replace("parallel: 1", "parallel: 2"))
    return site.variant("flags", recipes=[str(folder)])


def without_llama(site: Site) -> Path:
    """A fleet in which spark-1 no longer serves the second recipe."""
    sparks = yaml.safe_load(site.main.read_text())["sparks"]
    sparks["spark-1"]["serve"] = [SERVE["spark-1"][0]]
    return site.variant("without", sparks=sparks)


def two_slots(site: Site) -> None:
    """The process has the new flag."""
    none_built(site)
    words = site.root(f"tr '\\0' ' ' </proc/$(systemctl show -p MainPID --value {UNIT})/cmdline")
    assert "--parallel 2 " in words, words


def weights_stay(site: Site) -> None:
    """The unit is gone and its weights are not."""
    site.root(f"test ! -e /etc/systemd/system/{OTHER}\n"
              "ls /srv/sparkwright/weights/sparkwright-lab/tiny-llama-GGUF/*/*.gguf")  # fmt: skip


def reboot(site: Site) -> None:
    """Down and up again: both models must serve before anybody converges."""
    site.one.power_off()
    site.one.boot()
    state = site.root(f"systemctl is-active {UNIT} {OTHER}")
    assert state.split() == ["active", "active"], state
    ask = "curl -sf http://127.0.0.1:{}/health"
    site.root(f"{ask.format(8080)} && {ask.format(8081)}")


ROWS = (
    Row(
        "a flag of the recipe changed",
        "", (f"{FILE}: content differs", f"{UNIT}: runs *, not *"), (ASKED,), (UNIT,),
        fleet=flagged, prove=two_slots,
    ),
    Row(
        "recipe no longer in the fleet",
        "", (f"{OTHER}: no longer in the fleet",), (), (OTHER,),
        fleet=without_llama, prove=weights_stay,
    ),
    Row(
        "a stranger at the port of a stopped unit",
        STRANGER, (f"*: port 8080: is held by python3 (*), llm-{GPT} wants it; *",),
        (f"{UNIT}: inactive, not active", ASKED), (UNIT,),
        way="refused", undo="systemctl stop fake-stranger.service 2>/dev/null || test $? = 5",
    ),
    Row(
        "clock an hour ahead",
        FAKE_CLOCK, ("*: clock: * s ahead of the laptop, at most 60 s is accepted; *",),
        way="refused", undo=f"[ ! -e {KEPT} ] || mv {KEPT} {CLOCK}",
    ),
    Row(
        "machine rebooted", "", (ASKED, ASKED_OTHER), (), (UNIT, OTHER), act=reboot,
    ),
)  # fmt: skip
