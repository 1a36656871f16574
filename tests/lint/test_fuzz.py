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
    "source a", "vllm/vllm-openai:v0.19.0", "VLLM_(=1\n", "HF_*=1\n", "--[ ", "--(x=1 ",
]  # fmt: skip
# Where a name of a variable or flag may stand, and the engine that gets it.
PLACES = {
    Kind.UNIT: "[Service]\nEnvironment='{0}=1' {0}\nUser=a\nExecStart=/x/vllm serve m --{0} 1\n",
    Kind.DROPIN: "[Service]\nEnvironment='{0}=1'\n{0}=1\n",
    Kind.ENVFILE: "{0}=1\n",
    Kind.SCRIPT: "export {0}=1\n{0}=2\n{0}=1 vllm serve m --{0}\n"
    "docker run -e '{0}=1' vllm/x --{0} 1\n",
    Kind.DOCKERFILE: 'FROM vllm/x\nENV {0}=1\nARG {0}\nCMD ["vllm", "serve", "--{0}"]\n',
    Kind.COMPOSE: "services:\n  a:\n    image: vllm/x\n    command: --{0}\n"
    "    environment:\n      - '{0}=1'\n",
    Kind.COMMAND_RECIPE: "model: m\ndefaults:\n  '{0}': 1\nenv:\n  '{0}': '1'\n"
    "command: vllm serve {{model}} --{0} {{{0}}}\n",
    Kind.RECIPE: "engine: vllm\nflags:\n  '{0}': 1\nenv:\n  '{0}': '1'\n",
    Kind.VLLM_CONFIG: "'{0}': 1\n",
    Kind.PRESETS: "[{0}]\n{0} = 1\n",
}
NAMES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["VLLM_", "HF_", "TIKTOKEN_", "LLAMA_ARG_", "NCCL_", "no-", "x", ""]),
        st.text("()[]{}*+?\\.^$|-<>=!#%&~;:,/@A0_ '\"\n\u00e9", max_size=4),
    ),
)
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


@settings(max_examples=400, deadline=None)
@given(NAMES, st.sampled_from(list(PLACES)))
def test_no_name_crashes_a_rule(name: str, kind: Kind) -> None:
    text = PLACES[kind].replace("{0}", name).replace("{{", "{").replace("}}", "}")
    lint_sources({"f": decode("f", text.encode())}, newest(), kind)
