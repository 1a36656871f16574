"""Causes that want recipes of their own, or a boot of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e import support

from .patient import Patient
from .scene import Scene, machine, nothing

ADDRESS = "10.254.254.1"
MOVED = "moved"
ANSWERS = {
    "looping": "the text repeats itself",
    "mute": "the model ends before its final channel begins",
    "short": "the answer is cut off while the model thinks",
    "deaf": "the system message does not arrive",
    "wrong-backend": "another backend runs than the recipe wants",
    MOVED: "it listens on an address that the machine does not have",
}
MANY = 12  # automatic starts: more than a unit with a limit ever has
STORM = "/run/systemd/system/storm.service"
STORM_TEXT = r"""[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/false
\nRestart=always\nRestartSec=50ms\n""".replace("\n", "")


@contextmanager
def answers(patient: Patient) -> Iterator[Path]:
    """Recipes beside the usual one, each with a fault of its own.

    One listens on an address that the machine then loses, as with a new lease of DHCP.
    """
    there = {"recipe": MOVED, "listen": ADDRESS, "api_key": "open"}
    names = [name for name in ANSWERS if name != MOVED]
    fleet = patient.beside("answers", [*names, there])
    patient.root(f"ip address add {ADDRESS}/32 dev lo")
    # It fails, as it must: these recipes do not answer as they should.
    done = support.sparkwright(fleet, "converge", "--json")
    assert done.returncode == 2, done.stdout[-3000:]
    patient.root(f"ip address del {ADDRESS}/32 dev lo")
    patient.root(f"systemctl restart llm-{MOVED}", check=False)
    try:
        yield fleet
    finally:
        units = " ".join(f"llm-{name}.service" for name in ANSWERS)
        patient.root(f"systemctl disable -q --now {units}; systemctl reset-failed {units}; "
                     f"cd /etc/systemd/system && rm {units}; systemctl daemon-reload",
                     check=False)  # fmt: skip


@contextmanager
def storm_before(patient: Patient) -> Iterator[None]:
    """A unit of somebody else's, without a limit, until the power is cut."""
    patient.root(f"printf '{STORM_TEXT}' >{STORM}; systemctl daemon-reload; "
                 "systemctl start --no-block storm")  # fmt: skip
    end = time.monotonic() + 60
    count = 0
    while count < MANY:
        assert time.monotonic() < end, f"only {count} restarts"
        count = int(patient.root("systemctl show -p NRestarts --value storm") or 0)
    patient.cut()
    yield


@contextmanager
def cut(patient: Patient) -> Iterator[None]:
    """The power is cut; nothing in the log says why."""
    patient.cut()
    yield


@contextmanager
def driver_before(patient: Patient) -> Iterator[None]:
    """The driver fails, and the power is cut; afterwards a boot in order.

    The journald that fake_kernel restarts has the computer's own boot id, in every boot of the
    machine: what an earlier one wrote would count to the same boot.
    """
    patient.forget()
    patient.kernel("NVRM: nvAssertOkFailedNoLog: Assertion failed: Out of memory "
                   "[NV_ERR_NO_MEMORY] (0x00000051)")  # fmt: skip
    patient.cut()
    yield
    patient.reboot()


SCENES: tuple[Scene, ...] = (
    Scene(
        "real llama-server and tiny models; looping and mute stand in for broken kernels",
        answers,
        frozenset(ANSWERS.items()),
    ),
    Scene("all of it, with a real power cut", storm_before,
          machine("the boot before ended in a restart storm")),
    Scene("a real power cut in place of a hang", cut,
          machine("the boot before ended without a shutdown"), ("wedge",)),
    Scene("fake_kernel writes the line; journal, power cut and boot are real", driver_before,
          machine("the boot before ended in the GPU's driver"), ("wedge",)),
    Scene("a boot after one that ended in order", nothing, frozenset(), ("wedge",)),
)  # fmt: skip
