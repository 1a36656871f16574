"""What a vLLM knows, read out of a package of a few files that uses every form vLLM's own use.

Real releases: tests/introspection/.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.machine_case import program

for _name in ("source", "types", "values", "flags"):
    program(f"introspect_{_name}")
VLLM = program("introspect_vllm")

ENVS = """
environment_variables: dict = {
    "CUDA_HOME": lambda: os.environ.get("CUDA_HOME"),
    "VLLM_PLAIN": lambda: 1,
    "VLLM_GEMM": env_with_choices("VLLM_GEMM", None, ["marlin", "cutlass"]),
    "VLLM_NAMED": env_set_with_choices("VLLM_NAMED", default=[], choices=KINDS),
    "VLLM_LAZY": env_with_choices("VLLM_LAZY", None, lambda: kinds()),
    "VLLM_OLD": deprecated_env("VLLM_OLD", "v1.0", "Use --new.", lambda: 0),
    **EXTRA,
}
KINDS = ("a", "b")
"""
CONFIG = '''
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Optional, Union
from vllm.config.utils import config
from .other import *

if TYPE_CHECKING:
    from vllm.quant import Methods
    Loads = Literal["checked"]
else:
    Methods = str
    Loads = str

MoEBackend = Literal["triton", "auto", "marlin"]
Sizes = Literal[8, 16, 128]

@config
class Base:
    seed: int = 0

@config
class ModelConfig(Base):
    kind: ClassVar[str] = "model"
    hidden: "InitVar[int]" = 0
    dtype: Literal["half", "auto"] = "auto"
    mode: Optional[Literal["x"]] = None
    rank: Sizes = 8
    moe: MoEBackend = "auto"
    quant: Methods | None = None
    loads: Loads = "auto"
    shown: MoEBackend | str = "auto"
    starred: Starred = "s"
    eager: Annotated[bool, "x"] = False
    """[DEPRECATED] Does nothing."""
    enable_lora: bool | None = None
    disable_log: bool = False
    token: bool | str | None = None
    names: list[str] | None = None
    traces: list[Literal["all", "model"]] | None = None
    pair: tuple[int, int] = (0, 0)
    nested: Inner | None = None
    merged: Union[str, dict[str, int]] = ""
    unknown: torch.dtype = None

@config
class Inner:
    x: int = 0
'''
ARGS = '''
import argparse
from itertools import permutations
from vllm.config import ModelConfig, MoEBackend
from vllm.config import PASSTHROUGH

_OLD_TEXT = "--renamed is deprecated; use --rank."

class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        """Flags."""
        model_kwargs = get_kwargs(ModelConfig)
        group = parser.add_argument_group(title="x")
        if not ("serve" in sys.argv[1:]):
            group.add_argument("--model", **model_kwargs["unknown"])
        for_moe = model_kwargs["moe"]
        for_moe["type"] = lambda s: s.lower()
        group.add_argument("--moe-backend", **for_moe)
        group.add_argument("--rank", "-r", **{**model_kwargs["rank"], "default": None})
        group.add_argument("--renamed", **{**model_kwargs["rank"], "help": _OLD_TEXT})
        group.add_argument("--kv-cache-dtype", **model_kwargs["shown"])
        group.add_argument("--quantization", **model_kwargs["quant"])
        group.add_argument("--load-format", **model_kwargs["loads"])
        group.add_argument("--starred", **model_kwargs["starred"])
        model_kwargs["dtype"]["choices"].remove(PASSTHROUGH)
        group.add_argument("--dtype", **model_kwargs["dtype"])
        choices = model_kwargs["traces"]["choices"]
        model_kwargs["traces"]["choices"] += [
            ",".join(p) for p in permutations(get_args(MoEBackend), r=2)
        ]
        group.add_argument("--traces", **model_kwargs["traces"])
        for name in ("mode", "token", "names", "pair", "nested", "merged", "seed"):
            group.add_argument(f"--{name}", **model_kwargs[name])
        group.add_argument("--enforce-eager", **model_kwargs["eager"])
        group.add_argument("--enable-lora", **model_kwargs["enable_lora"])
        group.add_argument("--on-cpu", choices=["cpu"] + ([current_platform.device_type]
            if current_platform.device_type != "cpu" else []))
        group.add_argument("--verbose", action="store_true", default=False)
        group.add_argument("--old-switch", action=argparse.BooleanOptionalAction, deprecated=True)
        group.add_argument("--many", nargs="*", type=str)
        return parser

class AsyncEngineArgs(EngineArgs):
    @staticmethod
    def add_cli_args(parser, async_args_only=False):
        if not async_args_only:
            parser = EngineArgs.add_cli_args(parser)
        parser.add_argument("--log-requests", action=argparse.BooleanOptionalAction)
        return parser
'''
CLI = """
from vllm.config import config
from vllm.engine.arg_utils import AsyncEngineArgs

@config
class BaseFrontendArgs:
    disable_access_log: bool = False
    origins: list[str] = field(default_factory=list)

    @classmethod
    def _customize_cli_kwargs(cls, frontend_kwargs):
        frontend_kwargs["origins"]["type"] = json.loads
        if "nargs" in frontend_kwargs["origins"]:
            del frontend_kwargs["origins"]["nargs"]
        return frontend_kwargs

    @classmethod
    def add_cli_args(cls, parser):
        from vllm.engine.arg_utils import get_kwargs
        frontend_kwargs = get_kwargs(cls)
        frontend_kwargs = cls._customize_cli_kwargs(frontend_kwargs)
        for key, value in frontend_kwargs.items():
            extra_flags = value.pop("flags", [])
            group.add_argument(*extra_flags, f"--{key.replace('_', '-')}", **value)
        return parser

@config
class FrontendArgs(BaseFrontendArgs):
    port: int = 8000

    @classmethod
    def _customize_cli_kwargs(cls, frontend_kwargs):
        frontend_kwargs = super()._customize_cli_kwargs(frontend_kwargs)
        frontend_kwargs["port"]["flags"] = ["-p"]
        return frontend_kwargs

def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--config", help="a file")
    parser = FrontendArgs.add_cli_args(parser)
    parser = AsyncEngineArgs.add_cli_args(parser)
    return parser
"""
TABLES = '_{}_PARSERS_TO_REGISTER = {{"openai": ("a", "B"), "qwen3": ("c", "D")}}\n'
BACKENDS = 'class AttentionBackendEnum(Enum):\n    FLASHINFER = "x"\n    TRITON_ATTN = "y"\n'
MINI = {
    "vllm/__init__.py": "raise RuntimeError('imported')\n",
    "vllm/envs.py": ENVS,
    "vllm/config/__init__.py": CONFIG + 'PASSTHROUGH = "auto"\n',
    "vllm/config/other.py": 'Starred = Literal["s"]\n',
    "vllm/config/cache.py": 'CacheDType = Literal["auto", "fp8"]\n',
    "vllm/config/attention.py": (
        "class AttentionConfig:\n    def validate_backend_before(cls, value):\n"
        '        return None if value.lower() == "auto" else value\n'
    ),
    "vllm/engine/arg_utils.py": ARGS,
    "vllm/entrypoints/openai/cli_args.py": CLI,
    "vllm/model_executor/layers/quantization/__init__.py": (
        'QuantizationMethods = Literal["mxfp4", "fp8"]\n'
    ),
    "vllm/model_executor/model_loader/__init__.py": 'LoadFormats = Literal["auto"]\n',
    "vllm/reasoning/__init__.py": TABLES.format("REASONING"),
    "vllm/tool_parsers/__init__.py": TABLES.format("TOOL"),
    "vllm/v1/attention/backends/registry.py": BACKENDS,
}
# Classes and their parts of 0.33.0 that change what is accepted.
PAIRS = {"vllm/utils/argparse_utils.py": "class EnableDisableAction: ..."}
SWITCH = '\ndef _compute_kwargs(cls):\n    kwargs[name]["const"] = True\n'


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def facts(folder: Path, extra: dict[str, str] | None = None, version: str = "1.2.3") -> Any:
    return VLLM.facts(write(folder, MINI | (extra or {})) / "vllm", version)


def test_variables(tmp_path: Path) -> None:
    found = facts(tmp_path)
    assert found["env"] == {
        "CUDA_HOME": None,
        "VLLM_GEMM": ["marlin", "cutlass"],
        "VLLM_LAZY": None,
        "VLLM_NAMED": ["a", "b"],
        "VLLM_OLD": None,
        "VLLM_PLAIN": None,
    }
    assert found["deprecated"]["VLLM_OLD"] == "goes away in v1.0: Use --new."


FLAGS: dict[str, tuple[list[str] | None, bool | None]] = {
    "model": (None, True),
    "moe-backend": (["auto", "marlin", "triton"], True),
    "rank": (["8", "16", "128"], True),
    "renamed": (["8", "16", "128"], True),
    "kv-cache-dtype": (["auto", "fp8"], True),  # checked after the parser
    "quantization": (["mxfp4", "fp8"], True),
    "load-format": (["auto"], True),
    "starred": (["s"], True),
    "dtype": (["half"], True),
    "traces": (["all", "model", "None", "triton,auto", "triton,marlin", "auto,triton",
                "auto,marlin", "marlin,triton", "marlin,auto"], True),
    "mode": (["x", "None"], True),
    "token": (None, False),
    "no-token": (None, False),
    "names": (None, True),
    "pair": (None, True),
    "nested": (None, True),
    "merged": (None, True),
    "seed": (None, True),
    "enforce-eager": (None, False),
    "no-enforce-eager": (None, False),
    "enable-lora": (None, False),
    "no-enable-lora": (None, False),
    "on-cpu": (["cpu", "cuda"], True),
    "verbose": (None, False),
    "old-switch": (None, False),
    "no-old-switch": (None, False),
    "many": (None, None),
    "log-requests": (None, False),
    "no-log-requests": (None, False),
    "disable-access-log": (None, False),
    "no-disable-access-log": (None, False),
    "origins": (None, True),
    "port": (None, True),
    "config": (None, True),
    "help": (None, False),
}  # fmt: skip


def test_flags(tmp_path: Path) -> None:
    found = {n: (f["choices"], f["value"]) for n, f in facts(tmp_path)["flags"].items()}
    assert found == FLAGS


def test_newer_forms_of_flags(tmp_path: Path) -> None:
    extra = PAIRS | {"vllm/engine/arg_utils.py": ARGS + SWITCH}
    found = {n: (f["choices"], f["value"]) for n, f in facts(tmp_path, extra)["flags"].items()}
    wanted = dict(FLAGS) | {"token": (None, None)}
    del wanted["no-token"]
    for name in ("disable-lora", "enable-access-log"):
        wanted[name] = (None, False)
    assert found == wanted


def test_deprecated_flags_keep_their_text(tmp_path: Path) -> None:
    texts = facts(tmp_path)["deprecated"]
    assert texts["--renamed"] == "--renamed is deprecated; use --rank."
    assert texts["--enforce-eager"] == "[DEPRECATED] Does nothing."
    assert texts["--old-switch"] == "Deprecated."
    assert "--rank" not in texts


def test_names(tmp_path: Path) -> None:
    found = facts(tmp_path)
    assert found["reasoning_parsers"] == found["tool_parsers"] == ["openai", "qwen3"]
    assert found["attention_backends"] == ["AUTO", "FLASHINFER", "TRITON_ATTN"]


def test_older_places(tmp_path: Path) -> None:
    moved = dict(MINI)
    moved["vllm/entrypoints/openai/tool_parsers/__init__.py"] = moved.pop(
        "vllm/tool_parsers/__init__.py"
    )
    moved["vllm/attention/backends/registry.py"] = moved.pop(
        "vllm/v1/attention/backends/registry.py"
    )
    moved["vllm/entrypoints/launchers/cli_args.py"] = moved.pop(
        "vllm/entrypoints/openai/cli_args.py"
    )
    found = VLLM.facts(write(tmp_path, moved) / "vllm", "1")
    assert len(found["flags"]) == len(FLAGS)
    assert found["tool_parsers"] == ["openai", "qwen3"]
    assert "FLASHINFER" in found["attention_backends"]


MXFP4_ENV = {"vllm/envs.py": ENVS.replace("VLLM_PLAIN", "VLLM_MXFP4_BACKEND")}
MXFP4_FLAG = {"vllm/engine/arg_utils.py": ARGS.replace('"--many"', '"--mxfp4-backend"')}


@pytest.mark.parametrize(
    ("extra", "version", "build"),
    [
        ({}, "0.17.1", "stock"),
        ({}, "0.17.1+cu130", "stock"),
        ({}, "0.24.0rc1.dev5+gabcdef0", "stock"),
        ({}, "0.23.1rc1.dev701+g00eb7cefa.d20260701", "E"),
        ({}, "0.19.1rc1.dev322+g03f8d3a54.d20260415.cu132", "E"),
        (MXFP4_ENV, "0.17.1", "T"),
        (MXFP4_ENV | MXFP4_FLAG, "0.1.dev1+g045293d.d20260301", "C"),
        (MXFP4_FLAG, "0.17.1", "stock"),
    ],
)
def test_which_build_it_is(tmp_path: Path, extra: dict[str, str], version: str, build: str) -> None:
    assert facts(tmp_path, extra, version)["build"] == build


# --- the program ---


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    path = VLLM.__file__
    assert path
    argv = [sys.executable, path, *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


META = "Name: vllm\nVersion: 7.7.7\n"
VENV = "lib/python3.12/site-packages"


@pytest.mark.parametrize("name", ["", VENV])
def test_a_venv_or_its_packages_are_read(tmp_path: Path, name: str) -> None:
    write(tmp_path / VENV, MINI | {"vllm-7.7.7.dist-info/METADATA": META})
    done = run(tmp_path / name)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["version"] == "7.7.7"


def test_a_python_says_where_its_vllm_is(tmp_path: Path) -> None:
    write(tmp_path, MINI | {"vllm-7.7.7.dist-info/METADATA": META})
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    done = run(python)
    assert json.loads(done.stdout)["version"] == "7.7.7"


def test_the_package_itself_with_a_given_version(tmp_path: Path) -> None:
    done = run("--package", write(tmp_path, MINI) / "vllm", "--version", "5.5")
    assert json.loads(done.stdout)["version"] == "5.5"


def test_the_version_file_of_a_source_tree(tmp_path: Path) -> None:
    write(tmp_path, MINI | {"vllm/_version.py": "__version__ = version = '4.4'\n"})
    assert json.loads(run("--package", tmp_path).stdout)["version"] == "4.4"


@pytest.mark.parametrize(
    ("files", "phrase"),
    [
        ({}, "no vllm package in it"),
        ({"vllm/envs.py": "x = 1\n"}, "no make_arg_parser in"),
        (MINI | {"vllm/envs.py": "x = 1\n"}, "no table of variables; is this vLLM?"),
        (MINI | {"vllm/envs.py": "def (\n"}, "is this vLLM?"),
        (MINI, "no file beside it tells the version; give --version"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    tmp_path: Path, files: dict[str, str], phrase: str
) -> None:
    done = run("--package", write(tmp_path, files))
    assert done.returncode == 1
    assert done.stdout == ""
    assert phrase in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_python_without_vllm_is_named() -> None:
    for words in ((), (sys.executable,)):
        done = run(*words)
        assert done.returncode == 1
        assert "vllm is not installed for" in done.stderr
