"""ask.py beyond one question: system message and its role, long answers, pages, causes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ask_case import (
    ASK,
    JOURNAL,
    JUDGE,
    ROLE,
    Bench,
    FakeServer,
    causes,
    chunk,
    running,
)

SYSTEM = "Begin every answer with the word KESTREL."
OBEYED = [chunk(content="KESTREL I am"), chunk("stop")]
STORY = "Once a keeper lit the lamp. Then the sea came, and he told it of the land. " * 3
LONG = [chunk(content=STORY), chunk("stop")]
HARMONY = (
    "<|start|>system<|message|>You are ChatGPT.<|end|><|start|>{}<|message|># Instructions\n\n"
    f"{SYSTEM}<|end|><|start|>user<|message|>What are you?<|end|><|start|>assistant"
)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with running() as found:
        yield found


@pytest.fixture
def bench(
    tmp_path: Path,
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    return Bench(tmp_path, server, monkeypatch, capsys)


def under_system(bench: Bench, server: FakeServer, answer: list[Any] | None = None) -> Any:
    """Ask with a system message; the first stream of a later question names the prompt's tokens."""
    server.later = [OBEYED if answer is None else answer]
    return bench.ask(system=SYSTEM, system_expect="KESTREL", serves="vllm")


def test_reasoning_of_vllm_counts_as_reasoning(bench: Bench, server: FakeServer) -> None:
    """0.13 sent both names with the same text."""
    both = chunk(reasoning="hm ", reasoning_content="hm ")
    server.stream = [both, chunk(reasoning="well"), chunk(content="SPARK"), chunk("stop")]
    status, found = bench.ask(serves="vllm")
    assert (status, found["reasoning"]) == (0, "hm well")


@pytest.mark.parametrize("where", ["developer", "system"])
def test_the_report_says_in_which_role_the_system_message_came(
    bench: Bench, server: FakeServer, where: str
) -> None:
    tokens = {"prompt_token_ids": [1, 2, 3], **chunk(role="assistant")}
    server.objects["/detokenize"] = {"prompt": HARMONY.format(where)}
    status, found = under_system(bench, server, [tokens, *OBEYED])
    assert (status, found["role"], found["wrong"]) == (0, where, [])
    assert found["content"] == "I am SPARK."
    _, chat, detokenize = [body for _, body, _ in server.asked]
    assert chat["messages"][0] == {"role": "system", "content": SYSTEM}
    assert chat["return_token_ids"] is True
    assert detokenize == {"model": "tiny", "tokens": [1, 2, 3]}


def test_llama_server_shows_the_prompt_another_way(bench: Bench, server: FakeServer) -> None:
    server.objects["/apply-template"] = {"prompt": f"<|im_start|>system\n{SYSTEM}<|im_end|>"}
    server.later = [OBEYED]
    status, found = bench.ask(system=SYSTEM, system_expect="KESTREL")
    assert (status, found["role"]) == (0, "system")
    assert "return_token_ids" not in server.asked[1][1]


@pytest.mark.parametrize("shown", [None, {}, {"prompt": None}, {"prompt": [1]}])
def test_a_server_that_shows_no_prompt_is_no_failure(
    bench: Bench, server: FakeServer, shown: Any
) -> None:
    if shown is not None:
        server.objects["/apply-template"] = shown
    status, found = under_system(bench, server)
    assert (status, found["role"]) == (0, "not shown by this build")


def test_a_system_message_that_is_not_obeyed(bench: Bench, server: FakeServer) -> None:
    status, found = under_system(bench, server, [chunk(content="SPARK"), chunk("stop")])
    assert status == 1
    assert causes(found) == [
        f"under the system message {SYSTEM!r}: content 'SPARK' lacks 'KESTREL'"
    ]
    assert "vllm#33210" in found["wrong"][0]
    assert not bench.record.exists()


def test_a_system_message_that_the_prompt_lacks_fails_though_the_word_came(
    bench: Bench, server: FakeServer
) -> None:
    server.objects["/apply-template"] = {"prompt": "<|im_start|>user\nWhat are you?"}
    status, found = under_system(bench, server)
    assert status == 1
    assert causes(found) == ["the prompt does not hold the system message"]


PROMPTS = {
    f"<|start_header_id|>system<|end_header_id|>\n\n{SYSTEM}<|eot_id|>": "system",
    f"<start_of_turn>user\n{SYSTEM}\n\nWhat are you?": "user",
    f"<|turn|>system\n{SYSTEM}": "system",
    f"<|im_start|>user\nhi<|im_end|>\n<|im_start|>system\n{SYSTEM}": "system",
    f"[INST]{SYSTEM}": "unknown: the prompt begins '[INST]Begin every answer with the word K'",
    "<|im_start|>user\nhi": "none: the prompt does not hold it",
}


@pytest.mark.parametrize("prompt", PROMPTS)
def test_roles_in_the_templates_of_known_families(prompt: str) -> None:
    assert ROLE.found_in(prompt, SYSTEM) == PROMPTS[prompt]


def test_a_long_answer_is_asked_as_everybody_asks(bench: Bench, server: FakeServer) -> None:
    server.later = [LONG]
    status, found = bench.ask(long_question="Tell.")
    assert (status, found["long"]["characters"]) == (0, len(STORY))
    body = server.asked[1][1]
    assert "temperature" not in body
    assert body["seed"] == 1
    assert STORY[:20] not in json.dumps(found)


LOOPS: dict[str, list[Any]] = {
    "long answer: its content repeats 'and so on' to its end": [
        chunk(content="It begins well, " + "and so on " * 40), chunk("length")],
    "long answer: its reasoning repeats 'Wait.' to its end": [
        chunk(reasoning_content="Hm. " + "Wait. " * 60), chunk("length")],
    "long answer: its content repeats '!' to its end": [chunk(content="!" * 300), chunk("stop")],
    "long answer: finish_reason is length, not stop": [chunk(content=STORY), chunk("length")],
    "long answer: content is None after 2 characters of reasoning": [
        chunk(reasoning="hm"), chunk("stop")],
}  # fmt: skip


@pytest.mark.parametrize("wrong", LOOPS)
def test_a_long_answer_without_end(bench: Bench, server: FakeServer, wrong: str) -> None:
    server.later = [LOOPS[wrong]]
    status, found = bench.ask(long_question="Tell.")
    assert status == 1
    assert causes(found) == [wrong]
    assert not bench.record.exists()


@pytest.mark.parametrize(
    "text",
    ["", " ", STORY, "".join(f"| {n} | x |\n" for n in range(99)), "na " * 60, "-" * 150,
     "1, 2, 3, " * 3 + "4", ("A refrain of some length. " * 3 + "A line. ") * 2,
     "It begins. " + ("A long sentence may well come three times, as a refrain does in a song "
                      "of many verses that ends with it. ") * 3],
)  # fmt: skip
def test_what_is_no_loop(text: str) -> None:
    assert JUDGE.loop(text) is None


@pytest.mark.parametrize("cut", range(0, 40, 7))
def test_a_loop_is_found_wherever_the_answer_was_cut(cut: int) -> None:
    text = "Start. " + "The lamp is lit and the sea is dark. " * 20
    assert JUDGE.loop(text[: len(text) - cut])


def test_a_model_that_says_nothing_is_asked_once(bench: Bench, server: FakeServer) -> None:
    server.stream = [chunk("length")]
    bench.ask(system=SYSTEM, system_expect="KESTREL", long_question="Tell.")
    assert len(server.asked) == 1


LINES = [
    "INFO cuda.py:476] Using TRITON_ATTN attention backend out of potential backends: ['X']",
    "INFO mxfp4.py:433] Using 'MARLIN' Mxfp4 MoE backend.",
    "INFO mxfp4.py:433] Using 'MARLIN' Mxfp4 MoE backend.",
    "INFO nvfp4.py] Using MarlinNvFp4LinearKernel for NVFP4 GEMM",
]


def test_a_wrong_answer_shows_the_kernels_that_run(bench: Bench, server: FakeServer) -> None:
    bench.log = "\n".join(LINES)
    server.stream = [chunk("stop")]
    _, found = bench.ask(serves="vllm", log_must=[], notes=["Known of this build"])
    assert found["wrong"] == [
        "content is None after 0 characters of reasoning; likely cause: the final channel never "
        "began: raise acceptance.max_tokens, or the build computes wrong first tokens (vllm#37030)"
        ". Known of this build. it runs: Using TRITON_ATTN attention backend; Using 'MARLIN' Mxfp4 "
        "MoE backend; Using MarlinNvFp4LinearKernel for NVFP4 GEMM; see journalctl -u "
        "llm-tiny.service | "
        "grep -iE 'backend|mxfp4|using device|archs'"
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("mxfp4.py:165] Using Marlin backend", "Using Marlin backend"),
        ("Using NvFp4LinearBackend.MARLIN for NVFP4 GEMM",
         "Using NvFp4LinearBackend.MARLIN for NVFP4 GEMM"),
        ("[MXFP4] Auto-selected: CUTLASS_FP4 (vLLM native)",
         "[MXFP4] Auto-selected: CUTLASS_FP4 (vLLM native)"),
        ("using device CUDA0 (NVIDIA GB10)", "using device CUDA0 (NVIDIA GB10)"),
        ("INFO Using FLASHINFER backend.", "Using FLASHINFER backend"),
    ],
)  # fmt: skip
def test_lines_about_kernels(line: str, shown: str) -> None:
    assert JOURNAL.backends(f"x\n{line}\ny") == [shown]


@pytest.mark.parametrize(
    ("pattern", "line", "cause"),
    [
        ("EngineCore (failed to start|x)", "ERROR EngineCore failed to start.", "engine process"),
        ("Unknown vLLM environment variable detected",
         "WARNING Unknown vLLM environment variable detected: VLLM_X", "by hand"),
        ("CUTLASS_FP4", "[MXFP4] Auto-selected: CUTLASS_FP4", "another backend"),
    ],
)  # fmt: skip
def test_each_line_that_must_not_be_there_has_its_cause(
    bench: Bench, pattern: str, line: str, cause: str
) -> None:
    bench.log += f"{line}\n"
    status, found = bench.ask(log_must_not=[pattern], serves="vllm")
    assert status == 1
    assert causes(found) == [f"the journal says {line!r}"]
    assert cause in found["wrong"][0]


def test_a_server_that_died_is_explained_by_its_log(bench: Bench, server: FakeServer) -> None:
    server.status = 500
    bench.log = "EngineCore encountered a fatal error.\n"
    _, found = bench.ask(log_must_not=["EngineCore (x|encountered)"], serves="vllm")
    assert [what.split(":")[0] for what in causes(found)] == [
        "OSError", "the journal says 'EngineCore encountered a fatal error.'",
    ]  # fmt: skip


def test_the_drivers_errors_fail_a_gpu_service(bench: Bench) -> None:
    bench.kernel = ["NVRM: Xid (PCI:000f:01:00): 31, pid=7"]
    assert bench.ask()[0] == 0
    status, found = bench.ask(serves="vllm")
    assert status == 1
    assert causes(found) == ["the kernel says 'NVRM: Xid (PCI:000f:01:00): 31, pid=7'"]


def test_only_the_drivers_lines_of_the_kernel_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def output(argv: list[str]) -> str:
        asked.append(argv)
        if argv[0] == "systemctl":
            return "InactiveExitTimestamp=@1700000000\n"
        return "usb 1-1: new device\n NVRM: NV_ERR_NO_MEMORY (0x51)\nNVRM: loading driver 580\n"

    monkeypatch.setattr(JOURNAL, "output", output)
    assert JOURNAL.driver_errors({"unit": "x.service"}) == ["NVRM: NV_ERR_NO_MEMORY (0x51)"]
    assert asked[1][-2:] == ["--since", "@1700000000"]
    monkeypatch.setattr(JOURNAL, "output", lambda argv: "InactiveExitTimestamp=\n")
    assert JOURNAL.driver_errors({"unit": "x.service"}) == []


PAGES = {"/health": '{"status": true}', "/": "<title>Open WebUI</title>"}


def page(bench: Bench, server: FakeServer, pages: dict[str, str]) -> tuple[int, dict[str, Any]]:
    server.pages = pages
    return bench.ask(serves="web", question="", expect="Open WebUI", log_must=[])


def test_a_page_is_looked_at_and_asked_nothing(bench: Bench, server: FakeServer) -> None:
    status, found = page(bench, server, PAGES)
    assert (status, found["content"], found["wrong"]) == (0, "Open WebUI", [])
    assert found["total_s"] >= 0
    assert server.asked == []
    assert bench.record.exists()


@pytest.mark.parametrize(
    ("pages", "wrong"),
    [
        ({**PAGES, "/": "<title>nginx</title>"},
         "the start page '<title>nginx</title>' lacks 'Open WebUI'"),
        ({"/": PAGES["/"]}, "OSError: HTTP 404: "),
        ({"/health": "ok"}, "OSError: HTTP 404: "),
    ],
)  # fmt: skip
def test_a_page_that_is_not_the_wanted_one(
    bench: Bench, server: FakeServer, pages: dict[str, str], wrong: str
) -> None:
    status, found = page(bench, server, pages)
    assert status == 1
    assert causes(found) == [wrong]
    assert not bench.record.exists()


def test_every_cause_has_a_command_that_shows_it() -> None:
    assert set(JUDGE.CAUSES) == set(JUDGE.SEE)
    assert set(JUDGE.OTHER.values()) <= set(JUDGE.CAUSES)
    assert ASK.DROPPED == ROLE.DROPPED
