"""Traps of pip and uv on a machine with aarch64, Python 3.12 and CUDA 13."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import At, Command, Document, Word
from sparkwright.lint.places import kept
from sparkwright.lint.registry import file_rule

_TAG: Final = re.compile(r"\bcu(1[23]\d)\b")
_INDEX: Final = ("--index-url", "-i", "--extra-index-url", "--index", "--find-links", "-f")
# Packages that want a torch and take the default index's one when none is pinned.
_WANT_TORCH: Final = re.compile(
    r"(vllm|flashinfer(?!-cubin|-jit)[\w-]*|xformers|torchvision|torchaudio|sglang|flash-attn|accelerate)\b.*"
)


@dataclass(frozen=True)
class Install:
    """A `pip install` or `uv pip install`: words behind `install`."""

    command: Command
    words: tuple[Word, ...]

    @property
    def texts(self) -> list[str]:
        """The words as far as they are known."""
        return [word.shape for word in self.words]

    @property
    def index(self) -> str:
        """Values of the options that name an index."""
        return " ".join(
            after for text, after in zip(["", *self.texts], [*self.texts, ""], strict=True)
            if text in _INDEX or after.startswith(tuple(f"{name}=" for name in _INDEX))
        )  # fmt: skip

    def packages(self) -> list[Word]:
        """Requirements: words that are no options, and not the values of options."""
        found, skip = [], False
        for word in self.words:
            text = word.shape
            if skip or text.startswith("-"):
                skip = not skip and re.fullmatch(r"-[cirft]|--[\w-]+", text) is not None and (
                    text in (*_INDEX, "-c", "--constraint", "-r", "--requirement", "--target", "-t",
                             "--python", "-p", "--override", "--overrides", "--constraints")
                )  # fmt: skip
                continue
            found.append(word)
        return found


_PIP: Final = re.compile(r"pip|uv$|python")


def pip(doc: Document, verb: str) -> Iterator[Install]:
    """Every call of pip with that verb ("install", "download")."""
    for command in kept(doc, "_pip", lambda: [c for c in doc.commands if _PIP.match(c.name)]):
        texts = [word.shape for word in command.argv]
        name = command.name
        start = 1 if re.fullmatch(r"pip[\d.]*", name) else None
        if name == "uv" and texts[1:2] == ["pip"]:
            start = 2
        if re.fullmatch(r"python[\d.]*", name) and texts[1:3] == ["-m", "pip"]:
            start = 3
        if start is not None and verb in texts[start : start + 2]:
            yield Install(command, command.argv[texts.index(verb, start) + 1 :])


@file_rule(Verdict.WARN)
def torch_replaced(doc: Document, ctx: Context) -> Iterator[Found]:
    """A later install replaces CUDA's torch by the default index's one.

    The first command takes torch from a cu13 index. The second one asks the default index, does
    not know of it, and may put a CPU build in its place: `libtorch_cuda.so: cannot open`.

    Bad:
        uv pip install torch==2.9.0 --index-url https://download.pytorch.org/whl/cu130
        uv pip install flashinfer-python

    Good:
        uv pip install torch==2.9.0 --index-url https://download.pytorch.org/whl/cu130
        echo torch==2.9.0+cu130 > torch.txt
        uv pip install -c torch.txt flashinfer-python

    Source: eugr/spark-vllm-docker#265, #263; pytorch/pytorch#168065
    """
    torch: Install | None = None
    for install in pip(doc, "install"):
        names = [word.shape for word in install.packages()]
        if any(re.match(r"torch\b", n) for n in names) and _TAG.search(install.index):
            torch = install
            continue
        kept = any(re.match(r"-c\b|--(constraints?|overrides?|no-deps|torch-backend)", text)
                   for text in install.texts) or _TAG.search(install.index)  # fmt: skip
        wanting = [w for w in install.packages() if _WANT_TORCH.fullmatch(w.shape)]
        if torch is not None and wanting and not kept and "torch" not in "".join(names[:1]):
            tag = _TAG.search(torch.index)
            yield Found(
                wanting[0].at, f"{wanting[0].shape} may replace the torch of line "
                f"{torch.command.at.line} by a CPU build",
                f"pin it: -c FILE with torch==VERSION+cu{tag[1] if tag else '130'}", sees="",
            )  # fmt: skip


@file_rule(Verdict.WARN)
def cuda_tags_differ(doc: Document, ctx: Context) -> Iterator[Found]:
    """Wheels for two CUDA minor versions in one environment.

    The extension of a vLLM wheel tagged cu132 with the torch of cu130 ends in an undefined symbol
    at the import.

    Bad:
        pip install torch --index-url https://download.pytorch.org/whl/cu130
        pip install https://example.org/vllm-0.24.0+cu132-cp38-abi3-linux_aarch64.whl

    Good:
        pip install torch --index-url https://download.pytorch.org/whl/cu130
        pip install https://example.org/vllm-0.24.0+cu130-cp38-abi3-linux_aarch64.whl

    Source: eugr/spark-vllm-docker#141, #94
    """
    first: tuple[str, At] | None = None
    for install in pip(doc, "install"):
        for word in install.words:
            match = _TAG.search(word.shape)
            if match is None:
                continue
            if first is not None and first[0] != match[1]:
                yield Found(
                    word.at, f"cu{match[1]} here, cu{first[0]} in line {first[1].line}",
                    f"take all of torch, vllm and flashinfer for cu{first[0]}", sees=word.shape,
                )  # fmt: skip
                return
            first = first or (match[1], word.at)


@file_rule(Verdict.WARN)
def nightly_unpinned(doc: Document, ctx: Context) -> Iterator[Found]:
    """An unpinned package from a nightly index.

    On some days the index has no wheel for aarch64, and on the next day another one.

    Bad:
        pip install --pre vllm --extra-index-url https://wheels.vllm.ai/nightly

    Good:
        pip install vllm==0.24.0

    Source: eugr/spark-vllm-docker#20, #21
    """
    for install in pip(doc, "install"):
        if "nightly" not in install.index:
            continue
        for word in install.packages():
            if re.fullmatch(r"(vllm|torch|flashinfer[\w-]*)(\[[\w,-]+\])?", word.shape):
                yield Found(
                    word.at, f"{word.shape} from a nightly index is another one tomorrow, or none",
                    f"pin it: {word.shape}==VERSION, with --require-hashes", sees=word.shape,
                )  # fmt: skip
