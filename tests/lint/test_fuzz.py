"""Parsers on texts that nobody wrote: any answer, no crash, and every place is in the file."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkwright.lint.context import newest
from sparkwright.lint.model import Kind
from sparkwright.lint.run import lint_sources
from sparkwright.lint.source import CannotLint, decode

PIECES = [
    "vllm serve", "llama-server", "docker run", "--gpus all", "-e A=1", "-fa", "--port", "8000",
    "\n", " ", "\\\n", "\\ \n", "\t", "'", '"', "`", "$", "$(", ")", "${X:-", "}", "{", ",", "[",
    "]", "(", "X=", "X+=(", "export ", "if ", "then ", "fi", "do ", "done", "case ", "esac", ";;",
    "|", "&&", "<<EOF\n", "EOF\n", "# c", "[Service]\n", "ExecStart=", "Environment=", "%h", "%%",
    "$$", ";", "services:\n", "  a:\n", "    image: ", "    command: ", "- ", "|\n", ": ", "&a ",
    "*a", "model: m\n", "command: |\n", "{model}", "defaults:\n", "FROM x\n", "CMD [", "ENV A=",
    "```bash\n", "```\n", '\xe9', '\u2028', '\ue000', "\r\n", "~", "*", "bash -c ", "eval ",
    "source a", "vllm/vllm-openai:v0.19.0",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40).map("".join)


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.sampled_from(list(Kind)))
def test_no_text_crashes_a_parser(text: str, kind: Kind) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    try:
        item = decode("f", raw)
    except CannotLint:
        return
    report = lint_sources({"f": item}, newest(), kind)
    last = item.text.count("\n") + 1
    for finding in report.findings:
        assert 1 <= finding.line <= last
        assert finding.column >= 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(list(Kind)))
def test_no_bytes_crash_a_parser(raw: bytes, kind: Kind) -> None:
    try:
        item = decode("f", raw)
    except CannotLint:
        return
    lint_sources({"f": item}, newest(), kind)
