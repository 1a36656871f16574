"""`sparkwright doctor`: every cause by a line that programs really write, and its remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sparkwright import cli_doctor
from sparkwright.doctor import causes, chosen, findings, symptoms
from sparkwright.errors import SparkwrightError
from tests.unit.test_status import machine, row

SMI = "$ nvidia-smi -q -d PERFORMANCE  (exit 0)\nSW Power Cap : Not Active\n"
QUIET = {"llm-tiny": "model loaded\n", "kernel": "ok\n", "before": "ok\n", "gpu": SMI}
DATA = {"gpu_required": True}
# A line for each cause, in the order of the table: from the lab, or as in the sources it names.
LINES = (
    "llama_model_load: error loading model: tensor 'a' data is not within the file bounds, "
    "model is corrupted or incomplete",
    "OSError: [Errno 98] Address already in use",
    "OSError: [Errno 28] No space left on device",
    "llm-tiny.service: Main process exited, code=dumped, status=4/ILL",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    "ValueError: Free memory on device (41/119.7 GiB) on startup is less than desired GPU memory "
    "utilization (0.7, 83.79 GiB)",
    "ValueError: To serve at least one request with the models's max seq len (262144), (6.0 GiB "
    "KV cache is needed)",
    "Out of memory: Killed process 3248 (llama-server) total-vm:1kB",
    "openai_harmony.HarmonyError: error downloading or loading vocab file",
    "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot",
    "spark-1:77:77 [0] NCCL INFO Using network NET/Socket",
    "warning: no usable GPU found, --gpu-layers option will be ignored",
    "WARNING Cudagraph is disabled under eager mode",
    "SW Power Cap                          : Active",
    "llm-tiny.service: Start request repeated too quickly.",
    "NVRM: Xid (PCI:000f:01:00): 31, pid=77",
    "NVRM: nvAssertOkFailedNoLog: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)",
)


@pytest.mark.parametrize(
    ("cause", "line"), list(zip(causes(), LINES, strict=True)), ids=[c.name for c in causes()]
)
def test_every_cause(cause: Any, line: str) -> None:
    place = "llm-tiny" if cause.where == "journal" else cause.where
    said = {**QUIET, place: f"{QUIET[place]}{line}\nmore\n"}
    found = [f for f in findings(machine(row()), DATA, said, causes()) if f.cause == cause.name]
    assert [f.seen for f in found] == [" ".join(line.split())]
    assert (found[0].machine, found[0].symptom) == ("spark-1", cause.symptom)
    assert "{" not in found[0].fix
    for command in re.findall(r"`([^`]+)`", found[0].fix):
        assert command.startswith("sparkwright ")


def test_a_healthy_machine_shows_none() -> None:
    assert findings(machine(row()), DATA, QUIET, causes()) == []
    assert cli_doctor.lines([], 17)[0].startswith("none of 17 known causes")


def test_what_was_mended_is_not_told_again() -> None:
    text = (
        f"a\nStarting llm-tiny.service\n{LINES[0]}\nStarting llm-tiny.service - x\nmodel loaded\n"
    )
    assert findings(machine(row()), DATA, {**QUIET, "llm-tiny": text}, causes()) == []
    # One that does not run may just have been started once more.
    found = findings(machine(row(state="loading")), DATA, {**QUIET, "llm-tiny": text}, causes())
    assert [f.symptom for f in found] == ["weights"]


@pytest.mark.parametrize(
    "said", ["cannot be run: no such file\n", "$ nvidia-smi  (exit 9)\nfail\n"]
)
def test_a_gpu_that_is_expected_and_absent(said: str) -> None:
    found = findings(machine(row()), DATA, {**QUIET, "gpu": said}, causes())
    assert [f.symptom for f in found] == ["gpu"]
    assert findings(machine(row()), {"gpu_required": False}, {**QUIET, "gpu": said}, causes()) == []


def test_symptoms_choose_causes() -> None:
    assert {cause.symptom for cause in chosen("memory")} == {"memory"}
    assert chosen(None) == causes()
    with pytest.raises(SparkwrightError, match="did you mean memory"):
        chosen("memroy")
    told = cli_doctor.parser().format_help()
    assert all(symptom in told for symptom in symptoms())
