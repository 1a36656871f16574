"""The cap of the GPU's clock: unit, drift, and what mends it; and a setting that makes sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkwright.errors import SparkwrightError
from sparkwright.fleet import load_fleet
from sparkwright.fleet_settings import settings_defaults
from sparkwright.gpu_clock import PATH, UNIT, ClockCap, unit_text
from sparkwright.paths import PROJECT
from sparkwright.resources import File, State
from tests.unit.fake_machine import state_of

CAP, NONE = ClockCap(2150), ClockCap(0)
FINE: list[State] = [
    state_of(File(PATH, unit_text(2150))),
    {"ActiveState": "active", "UnitFileState": "enabled"},
    {"rc": 0, "out": "2145\n"},
]


def changed(place: int, **changes: Any) -> list[State]:
    states = [dict(state) for state in FINE]
    states[place] |= changes
    return states


def test_a_cap_as_wanted() -> None:
    assert CAP.drift(FINE) == []
    assert len(CAP.probes()) == len(FINE)
    assert NONE.drift([{"type": "missing"}]) == []
    assert len(NONE.probes()) == 1


@pytest.mark.parametrize(
    ("states", "what"),
    [
        (changed(0, sha256="0"), f"{PATH}: content differs"),
        (changed(1, ActiveState="inactive"), f"{UNIT}: is inactive, not active"),
        (changed(1, UnitFileState="disabled"), f"{UNIT}: is not enabled"),
        (changed(2, out="2400\n"), "GPU clock: is 2400 MHz, above the cap of 2150"),
    ],
)
def test_what_drifts_is_named_and_mended(states: list[State], what: str) -> None:
    assert CAP.drift(states) == [what]
    shells = [command.shell for command in CAP.fix(states)]
    assert "/usr/bin/nvidia-smi -lgc 0,2150 >/dev/null" in shells[-1]
    assert any(f"enable {UNIT}" in shell for shell in shells)
    assert (len(shells) > 3) is what.startswith(PATH)


@pytest.mark.parametrize("out", ["[N/A]\n", "", "ERR!\n"])
def test_a_clock_that_is_not_told_is_no_drift(out: str) -> None:
    assert CAP.drift(changed(2, out=out)) == []


def test_a_cap_that_is_no_longer_wanted_goes() -> None:
    assert NONE.drift(FINE[:1]) == [f"{PATH}: no cap of the GPU's clock is wanted"]
    shells = [command.shell for command in NONE.fix(FINE[:1])]
    assert shells == [f"systemctl --quiet disable --now {UNIT}",
                      f"rm -f {PATH} && systemctl daemon-reload"]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "wrong"),
    [("2150", ""), ("0", ""), ("150", "150 is no clock in MHz"), ("-5", "-5 is no clock in MHz"),
     ("true", "gpu_clock_max_mhz"), ("'2150'", "gpu_clock_max_mhz")],
)  # fmt: skip
def test_the_setting(tmp_path: Path, value: str, wrong: str) -> None:
    path = tmp_path / "sparks.yaml"
    sparks = "sparks:\n  a: {address: 10.0.0.1}\n"
    path.write_text(f"defaults: {{settings: {{gpu_clock_max_mhz: {value}}}}}\n{sparks}")
    defaults = settings_defaults(PROJECT / "group_data/all.py")
    if not wrong:
        assert load_fleet(path, defaults).sparks[0].settings["gpu_clock_max_mhz"] == int(value)
        return
    with pytest.raises(SparkwrightError, match=wrong):
        load_fleet(path, defaults)
