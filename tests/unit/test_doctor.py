"""`sparkwright doctor`: every cause by a line that programs really write, and its remedy."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from sparkwright import cli_doctor
from sparkwright.doctor import SYMPTOMS, causes, chosen, findings
from sparkwright.doctor_texts import texts
from sparkwright.errors import SparkwrightError
from sparkwright.paths import PROJECT
from sparkwright.verify_checks import Check
from tests.unit.test_status import OFF, machine, row

RAN = "$ a command  (exit 0)\n"
QUIET = {
    "llm-tiny": f"{RAN}model loaded\n",
    "kernel": f"{RAN}ok\n",
    "before": "$ journalctl  (exit 1)\n",
    "storms": "$ journalctl  (exit 1)\n",
    "ended": "$ journalctl  (exit 1)\n",
    "gpu": f"{RAN}SW Power Cap : Not Active\nCUDA : ARCHS = 1210\n",
    "address": f"{RAN}2: eth0    inet 10.1.2.3/24 brd 10.1.2.255\n",
}
DATA = {"gpu_required": True}
# A line for each cause: from the lab, or as in the sources that the table names.
LINES = {
    "a file of the weights is damaged": "llama_model_load: error loading model: tensor 'a' data "
    "is not within the file bounds, model is corrupted or incomplete",
    "the weights are not what was published": "weights: changed a.gguf",
    "another process holds the port": "OSError: [Errno 98] Address already in use",
    "the disk is full": "OSError: [Errno 28] No space left on device",
    "the program was built for another CPU": "llm-tiny.service: Main process exited, "
    "code=dumped, status=4/ILL",
    "the program has no kernels for this GPU": "RuntimeError: CUDA error: no kernel image is "
    "available for execution on the device",
    "kernels of another GPU run": "system_info: n_threads = 20 | CUDA : ARCHS = 890,900 | F16 = 1",
    "Triton's own ptxas does not know this GPU": "ptxas fatal   : Value 'sm_121a' is not defined "
    "for option 'gpu-name'",
    "kernels cannot be compiled at the first request: ninja or nvcc is not found":
    "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",
    "kernels cannot be compiled: Python's headers are missing": "main.c:4:10: fatal error: "
    "Python.h: No such file or directory",
    "the GPU's driver failed": "NVRM: Xid (PCI:000f:01:00): 31, pid=77",
    "driver and its library are of two versions": "Failed to initialize NVML: Driver/library "
    "version mismatch",
    "the engine sees no GPU": "warning: no usable GPU found, --gpu-layers option will be ignored",
    "the GPU has no memory left": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
    "less memory is free than vLLM's share": "ValueError: Free memory on device (41/119.7 GiB) on "
    "startup is less than desired GPU memory utilization (0.7, 83.79 GiB)",
    "the context is larger than the KV cache": "ValueError: To serve at least one request with "
    "the models's max seq len (262144), (6.0 GiB KV cache is needed)",
    "less memory is free than the recipe needs": "memory_gate: refused: 70.0 GiB needed, 41.0 GiB "
    "available of 119.7 GiB",
    "it took more memory than its recipe allows": "llm-tiny.service: A process of this unit has "
    "been killed by the OOM killer.",
    "the machine ran out of memory": "Out of memory: Killed process 3248 (llama-server) total-vm:1",
    "the vocabulary of gpt-oss is missing or damaged": "openai_harmony.HarmonyError: error "
    "downloading or loading vocab file",
    "a file is missing that the engine then looks for on the Hub": "huggingface_hub.errors."
    "OfflineModeIsEnabled: Cannot reach x: offline mode is enabled.",
    "it asks the Hub, and the machine has no way there": "ConnectError: [Errno -3] Temporary "
    "failure in name resolution",
    "NCCL goes over TCP instead of the fabric": "spark-1:77:77 [0] NCCL INFO Using network "
    "Socket",
    "NCCL or gloo is told an interface that is not there": "spark-1:77:77 [0] NCCL WARN Bootstrap "
    ": no socket interface found",
    "CUDA graphs are off, which halves the speed": "WARNING Cudagraph is disabled under eager mode",
    "the GPU holds its clock down": "SW Power Cap                          : Active",
    "another backend runs than the recipe wants": "log: the journal since this start has no line "
    "like 'ARCHS = 1210'; likely cause: x",
    "the answer is cut off while the model thinks": "question: content is None after 9 characters "
    "of reasoning; likely cause: x; finish_reason is length, not stop",
    "the model ends before its final channel begins": "question: content is '' after 0 characters "
    "of reasoning; likely cause: x",
    "the system message does not arrive": "system message: content 'A' lacks 'B'",
    "the text repeats itself": "long answer: long answer: its content repeats '!' to its end",
    "it does not run as the fleet file says": "as wanted: /a.conf: a drop-in changes a.service",
    "it runs and does not answer": "state: silent",
    "it failed again and again, and systemd gave up": "llm-tiny.service: Start request repeated "
    "too quickly.",
    "the boot before ended in a restart storm": "other.service: Scheduled restart job, restart "
    "counter is at 35.",
    "the boot before ended in the GPU's driver": "NVRM: nvAssertOkFailedNoLog: Out of memory "
    "[NV_ERR_NO_MEMORY] (0x00000051)",
}  # fmt: skip
# Of these the machine's data decide, not one line.
OTHERS = {
    "it listens on an address that the machine does not have",
    "it can be asked from the machine itself only",
    "no GPU is there, and one is expected",
    "the boot before ended without a shutdown",
    "somebody stopped it",
}


def look(symptom: str | None = None, checks: Any = (), rows: Any = None, **said: str) -> list[Any]:
    """What doctor finds on one machine that says this."""
    one = machine(*(rows or [row()]))
    found = texts(one, DATA, {**QUIET, **said}, checks)
    return findings(one, found, chosen(symptom), symptom)


def named(found: list[Any]) -> list[str]:
    return [finding.cause for finding in found]


def test_every_cause_has_a_line_or_a_test_of_its_own() -> None:
    assert {cause.name for cause in causes()} == {*LINES} | OTHERS
    assert {symptom for cause in causes() for symptom in cause.symptoms} == {*SYMPTOMS}


@pytest.mark.parametrize("cause", [c for c in causes() if c.name in LINES], ids=lambda c: c.name)
def test_every_cause(cause: Any) -> None:
    line = LINES[cause.name]
    checks: list[Check] = []
    said = dict(QUIET)
    if cause.where == "checks":
        name, _, seen = line.partition(": ")
        checks = [Check("spark-1", "tiny", name, False, seen, "x")]
    else:
        place = "llm-tiny" if cause.where == "journal" else cause.where
        said[place] += f"{line}\nmore\n"
    (found,) = look(None, checks, **said)
    assert (found.cause, found.symptom) == (cause.name, cause.symptoms[0])
    assert found.seen == " ".join(line.split())
    for symptom in cause.symptoms:
        assert cause.name in named(look(symptom, checks, **said))


@pytest.mark.parametrize("cause", causes(), ids=lambda c: c.name)
def test_every_remedy_is_filled_in(cause: Any) -> None:
    fix = cause.fix.format(recipe="tiny", machine="spark-1", port=8080)
    assert "{" not in fix
    for command in re.findall(r"`([^`]+)`", fix):
        assert command.startswith("sparkwright ") or re.fullmatch(r"listen|api_key", command)


def test_a_healthy_machine_shows_none() -> None:
    assert look() == []
    assert cli_doctor.lines([], 17)[0].startswith("none of 17 known causes")


LACK = {"kernel": f"{RAN}{LINES['the machine ran out of memory']}\n"}
BIG = machine(
    row(), available_gib=12.2, share=0.1,
    holders=(("python3 (412)", "container jupyter", 64.25), ("llama-server (7)",
             "llm-tiny.service", 9.0), ("Xorg (99)", "", 0.75)),
)  # fmt: skip


def test_the_text() -> None:
    found = look(**LACK)
    text = [*cli_doctor.lines(found, 41), *cli_doctor.memory([BIG, OFF], found, None)]
    golden = (PROJECT / "tests/golden/operate/doctor.txt").read_text()
    assert "\n".join([*text, ""]) == golden


def test_who_holds_the_memory_is_told_where_it_is_lacking_or_asked_for() -> None:
    found, other = look(**LACK), machine(row(), name="spark-3")
    slow = look(gpu=f"{RAN}SW Power Cap : Active\n")
    assert cli_doctor.memory([BIG, other], [], None) == []
    assert cli_doctor.memory([BIG, other], slow, None) == []
    assert [line.split(":")[0] for line in cli_doctor.memory([BIG, other, OFF], found, None)][:1] \
        == ["spark-1"]  # fmt: skip
    asked = cli_doctor.memory([BIG, other, OFF], [], "memory")
    assert [line.split(":")[0] for line in asked if line[0] != " "] == ["spark-1", "spark-3"]


def test_the_object_is_as_its_schema_says() -> None:
    schema = json.loads((PROJECT / "docs/schemas/doctor.json").read_text())
    made = cli_doctor.as_json([BIG, OFF], look(**LACK), ["spark-2: no answer within 10 s"])
    found = json.loads(json.dumps(made))
    check = jsonschema.Draft202012Validator(schema)
    check.validate(found)
    assert found["memory"][0]["holders"][0] == {
        "process": "python3 (412)", "unit": "container jupyter", "gib": 64.25
    }  # fmt: skip
    figures = ("total_gib", "available_gib", "share")
    assert [found["memory"][1][name] for name in figures] == [None, None, None]
    assert not check.is_valid({**found, "memory": [{**found["memory"][0], "share": 0.9}]})
    del found["memory"]
    assert not check.is_valid(found)


def test_what_was_mended_is_not_told_again() -> None:
    bad = LINES["a file of the weights is damaged"]
    text = f"{RAN}\nStarting llm-tiny.service\n{bad}\nStarting llm-tiny.service - x\nloaded\n"
    mended = f"{text}Started llm-tiny.service\n"
    assert look(**{"llm-tiny": text}) == []
    # One that does not run may just have been started once more.
    loading = [row(state="loading")]
    assert [f.symptom for f in look(rows=loading, **{"llm-tiny": text})] == ["weights"]
    assert look(rows=loading, **{"llm-tiny": mended}) == []


def test_a_crash_before_a_restart_by_itself_is_told() -> None:
    bad = LINES["kernels cannot be compiled at the first request: ninja or nvcc is not found"]
    text = f"{RAN}\nStarting llm-tiny.service\n{bad}\nStarting llm-tiny.service\nloaded\n"
    assert look(**{"llm-tiny": text}) == []
    (found,) = look(rows=[row(restarts=1)], **{"llm-tiny": text})
    assert found.symptom == "crash"


def test_what_follows_from_a_cause_is_not_told_beside_it() -> None:
    storm, memory = "Start request repeated too quickly.\n", "cudaMalloc failed: out of memory\n"
    assert [f.symptom for f in look(**{"llm-tiny": storm})] == ["storm"]
    assert [f.symptom for f in look(**{"llm-tiny": storm + memory})] == ["memory"]
    assert [f.symptom for f in look("storm", **{"llm-tiny": storm + memory})] == ["storm"]


@pytest.mark.parametrize(
    "said", ["cannot be run: no such file\n", "$ nvidia-smi  (exit 9)\nfail\n"]
)
def test_a_gpu_that_is_expected_and_absent(said: str) -> None:
    assert named(look(gpu=said)) == ["no GPU is there, and one is expected"]
    one = machine(row())
    assert texts(one, {"gpu_required": False}, {**QUIET, "gpu": said}, ())["absent"] == {"": ""}


def test_an_address_that_the_machine_lost() -> None:
    gone = {"listen": "10.9.9.9", "state": "failing"}
    bind = f"{RAN}couldn't bind HTTP server socket, hostname: 10.9.9.9, port: 8080\n"
    (found,) = look(rows=[row(**gone)], **{"llm-tiny": bind})
    assert found.cause == "it listens on an address that the machine does not have"
    assert found.seen == "listens on 10.9.9.9; the machine has 10.1.2.3"
    assert look(rows=[row(listen="10.1.2.3", state="failing")]) == []


STOPPED = {"state": "stopped", "result": "success", "accepted": None, "tok_s": None}
BYE = (f"{RAN}\nStarted llm-tiny.service - tiny.\nmodel loaded\n"
       "Stopping llm-tiny.service - tiny...\nStopped llm-tiny.service - tiny.\n")  # fmt: skip


def test_a_unit_that_somebody_stopped() -> None:
    (found,) = look(rows=[row(**STOPPED)], **{"llm-tiny": BYE})
    assert (found.recipe, found.cause, found.symptom) == ("tiny", "somebody stopped it", "stopped")
    assert found.seen == "inactive, and nothing failed: Stopped llm-tiny.service - tiny."
    assert "sudo systemctl start llm-tiny;" in found.fix
    # Its log may have been dropped.
    (bare,) = look("refused", rows=[row(**STOPPED)])
    assert bare.seen == "inactive, and nothing failed"


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "running", "result": "success"},
        {"state": "standby", "wanted": "standby", "result": "success"},
        {"state": "failed", "result": "exit-code"},
        {"state": "stopped", "result": ""},  # it is stopping
        {"state": "stopped", "result": "exec-condition"},
        {"state": "missing", "result": "success"},
        {"state": "unknown", "result": ""},
    ],
)
def test_what_nobody_stopped(changes: dict[str, str]) -> None:
    assert look(rows=[row(**{**STOPPED, **changes})], **{"llm-tiny": BYE}) == []


def test_a_worker_is_stopped_by_its_head() -> None:
    """The link stops it when the head is gone; who stopped the head is told there."""
    one = machine(row(**STOPPED))
    made = texts(one, DATA, {**QUIET, "llm-tiny": BYE}, (), workers=("tiny",))
    assert made["stopped"] == {"tiny": ""}


def test_listening_on_the_loopback_is_told_when_somebody_is_refused() -> None:
    assert look() == []
    (found,) = look("refused")
    assert found.fix.startswith("ssh -NL 8080:127.0.0.1:8080 spark-1;")
    assert look("refused", rows=[row(listen="10.1.2.3")]) == []


def test_a_boot_that_ended_without_a_shutdown() -> None:
    hung, orderly = f"{RAN}GET /health\n", f"{RAN}Reached target poweroff.target - Power Off.\n"
    assert look(ended=hung) == []
    (found,) = look("wedge", ended=hung)
    assert found.seen == "no shutdown; its last line: GET /health"
    assert look("wedge", ended=orderly) == []
    # The reason, where the log has one, is told alone.
    storm = f"{RAN}x.service: Scheduled restart job, restart counter is at 269.\n"
    assert named(look("wedge", ended=hung, storms=storm)) == [
        "the boot before ended in a restart storm"
    ]


def test_symptoms_choose_causes() -> None:
    assert all("memory" in cause.symptoms for cause in chosen("memory"))
    assert chosen(None) == tuple(cause for cause in causes() if not cause.asked)
    with pytest.raises(SparkwrightError, match="did you mean memory"):
        chosen("memroy")
    told = cli_doctor.parser().format_help()
    assert all(f"\n  {symptom} " in told for symptom in SYMPTOMS)
