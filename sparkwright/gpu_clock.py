"""A cap of the GPU's clock that survives a reboot: the driver itself forgets it. Pure.

People cap GB10 against hard power-offs and thermal resets: eugr 2150 MHz (eugr/spark-vllm-docker,
README), eight Founders Edition machines 2200 MHz by a unit at boot, `nvidia-smi -lgc 0,2200`,
reported as 2184-2190 MHz afterwards (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1). Not run on a
GB10 by us.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sparkwright.resources import Absent, Command, File, Spec, State, quote
from sparkwright.site import UNIT_DIR
from sparkwright.unit_sections import MARKER

UNIT: Final = "sparkwright-gpu-clock.service"
SMI: Final = "/usr/bin/nvidia-smi"
# The driver tells no lock, so the clock itself is looked at: above the cap there is none.
_NOW: Final = (SMI, "--query-gpu=clocks.current.sm", "--format=csv,noheader,nounits")
PATH: Final = f"{UNIT_DIR}/{UNIT}"


def unit_text(mhz: int) -> str:
    """The unit that sets the cap at boot and takes it away when it is stopped.

    + mhz: largest clock
    """
    return f"""{MARKER}. A converge undoes edits: change gpu_clock_max_mhz instead.

[Unit]
Description=sparkwright: the GPU's clock stays at {mhz} MHz or below
After=nvidia-persistenced.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={SMI} -lgc 0,{mhz}
ExecStop={SMI} -rgc

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class ClockCap:
    """The cap as it is wanted, at boot and now.

    + mhz: 0: no cap of ours
    """

    mhz: int

    @property
    def _file(self) -> File:
        return File(PATH, unit_text(self.mhz))

    def probes(self) -> list[Spec]:
        file = self._file.probes() if self.mhz else Absent(PATH).probes()
        if not self.mhz:
            return file
        return [*file, {"kind": "unit", "name": UNIT}, {"kind": "run", "argv": list(_NOW)}]

    def drift(self, states: Sequence[State]) -> list[str]:
        if not self.mhz:
            there = states[0].get("type") != "missing"
            return [f"{PATH}: no cap of the GPU's clock is wanted"] if there else []
        file, unit, now = states[0], states[1], states[2].get("out", "").split()
        found = self._file.drift([file])
        if unit.get("ActiveState") != "active":
            found.append(f"{UNIT}: is {unit.get('ActiveState', 'unknown')}, not active")
        if unit.get("UnitFileState") != "enabled":
            found.append(f"{UNIT}: is not enabled")
        above = [text for text in now if text.isdigit() and int(text) > self.mhz]
        found += [f"GPU clock: is {text} MHz, above the cap of {self.mhz}" for text in above[:1]]
        return found

    def fix(self, states: Sequence[State]) -> list[Command]:
        if not self.mhz:
            return [
                Command(f"systemctl --quiet disable --now {UNIT}"),
                Command(f"rm -f {quote(PATH)} && systemctl daemon-reload"),
            ]
        write = self._file.fix(states[:1]) if self._file.drift(states[:1]) else []
        return [
            *write,
            Command("systemctl daemon-reload"),
            Command(f"systemctl --quiet enable {UNIT}"),
            # A restart would take the cap away for a moment: ExecStart alone sets it anew.
            Command(f"{SMI} -lgc 0,{self.mhz} >/dev/null && systemctl start {UNIT}"),
        ]
