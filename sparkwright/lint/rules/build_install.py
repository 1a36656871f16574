"""Where pip installs, and for which platform."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document
from sparkwright.lint.registry import file_rule
from sparkwright.lint.rules.build_pip import pip


@file_rule(Verdict.WARN)
def broken_system_packages(doc: Document, ctx: Context) -> Iterator[Found]:
    """pip as root or with --break-system-packages.

    It changes the Python that the system's own tools run on, or leaves files of root's in a venv
    of a user's.

    Bad:
        sudo pip install --break-system-packages vllm

    Good:
        python3 -m venv /opt/vllm && /opt/vllm/bin/pip install vllm==0.24.0

    Source: NVIDIA/dgx-spark-playbooks#90, vllm-project/vllm#21677
    """
    for install in pip(doc, "install"):
        flag = next((w for w in install.words if w.text == "--break-system-packages"), None)
        if flag is not None:
            yield Found(
                flag.at, "it overwrites packages of the system's own Python",
                "make a venv: python3 -m venv /opt/vllm", sees=flag.text or "",
            )  # fmt: skip
        elif install.command.user in ("root", "0", "#0"):
            yield Found(
                install.command.at, "pip as root leaves files of root's in the environment",
                "run the venv's own pip as its owner", sees="root",
            )  # fmt: skip


@file_rule(Verdict.BLOCK)
def platform_tag(doc: Document, ctx: Context) -> Iterator[Found]:
    """`--platform linux_aarch64` finds no compiled wheel.

    Wheels are tagged manylinux: "from versions: none" for each compiled package, while those of
    pure Python are found.

    Bad:
        pip download --only-binary=:all: --platform linux_aarch64 --python-version 3.12 vllm

    Good:
        pip download --only-binary=:all: --platform manylinux_2_17_aarch64 \\
            --platform manylinux_2_35_aarch64 --python-version 3.12 vllm

    Source: pypa/pip#11852 (tried: pip 23.2.1)
    """
    for verb in ("download", "install", "wheel"):
        for install in pip(doc, verb):
            for before, word in itertools.pairwise((install.command.argv[0], *install.words)):
                named = before.text == "--platform"
                glued = (word.text or "").startswith("--platform=")
                text = (word.text or "").removeprefix("--platform=")
                if (named or glued) and re.fullmatch(r"linux_\w+", text):
                    arch = text.removeprefix("linux_")
                    yield Found(
                        word.at, f"no compiled wheel has the tag {text}",
                        f"write --platform manylinux_2_17_{arch} (and up to 2_39)", sees=text,
                    )  # fmt: skip


_UNCHECKED: Final = re.compile(
    r"AllowUnauthenticated|--allow-unauthenticated|AllowInsecureRepositories"
    r"|Check-Valid-Until=(?:false|0)|Check-Date=(?:false|0)"
)


@file_rule(Verdict.WARN)
def apt_unchecked(doc: Document, ctx: Context) -> Iterator[Found]:
    """apt without its checks of signatures or dates, for every source.

    "Release file is not valid yet" means that the clock is behind; TLS fails next. An unsigned
    repository needs [trusted=yes] on its own line, not a switch for all of them.

    Bad:
        apt-get -o Acquire::Check-Date=false update

    Good:
        timedatectl set-ntp true && apt-get update

    Source: hkjarral/AVA-AI-Voice-Agent-for-Asterisk#122, rickysarraf/apt-offline#164
    """
    for command in doc.commands:
        for word in command.argv[1:] if command.name in ("apt", "apt-get") else ():
            match = _UNCHECKED.search(word.shape)
            if match:
                date = "Check-" in match[0]
                yield Found(
                    word.at, f"{match[0]} switches a check off for every source",
                    "set the clock right" if date else "sign it, or [trusted=yes] on its one line",
                    sees=word.raw,
                )  # fmt: skip
