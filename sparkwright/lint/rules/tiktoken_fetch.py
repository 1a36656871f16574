"""How the vocabulary and other files get onto the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document
from sparkwright.lint.registry import file_rule, files_rule
from sparkwright.lint.rules.systemd_paths import below
from sparkwright.lint.rules.systemd_reading import units

# Options of wget with which a second run makes no second copy.
_NAMED: Final = re.compile(r"-(\w*[OcN]|nc)|--(output-document|no-clobber|timestamping|continue)")


@file_rule(Verdict.WARN)
def wget_again(doc: Document, ctx: Context) -> Iterator[Found]:
    """A second run of wget leaves `.1` copies, and keeps a broken first one.

    Without -O, -nc, -N or -c wget writes `o200k_base.tiktoken.1` beside the file that is there. A
    half file of the first run stays in use.

    Bad:
        wget -P /srv/tk https://mirror.lan/o200k_base.tiktoken

    Good:
        curl -fL -o /srv/tk/.part https://mirror.lan/o200k_base.tiktoken
        echo "$SHA256  /srv/tk/.part" | sha256sum -c && mv /srv/tk/.part /srv/tk/o200k_base.tiktoken

    Source: wget(1), "-nc"; NVIDIA's playbook as repeated in public repositories
    """
    for command in doc.commands:
        if command.name != "wget":
            continue
        texts = [word.shape for word in command.argv[1:]]
        named = any(_NAMED.match(text) for text in texts)
        for word in command.argv[1:]:
            if (
                re.search(r"://\S+\.(tiktoken|gguf|safetensors|bin)(\?|$)", word.shape)
                and not named
            ):
                file = word.shape.split("?")[0].rsplit("/", 1)[-1]
                yield Found(
                    word.at, f"a second run writes {file}.1 and leaves a broken {file} in use",
                    f"fetch to a temporary name, check its sha256, then mv it to {file}",
                    sees=f"{file}.1",
                )  # fmt: skip


@files_rule(Verdict.NOTE)
def seed_writable(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """A vocabulary cache that the service may write to is deleted when it is not right.

    harmony removes a file of the wrong content from TIKTOKEN_RS_CACHE_DIR and downloads it again.
    Offline the first start fails, and the directory is empty afterwards.

    Bad:
        ReadWritePaths=/srv/tk
        Environment=TIKTOKEN_RS_CACHE_DIR=/srv/tk

    Good:
        ReadOnlyPaths=/srv/tk
        Environment=TIKTOKEN_RS_CACHE_DIR=/srv/tk

    Source: openai/harmony#101; tiktoken's cache look-up in openai-harmony 0.0.8
    """
    for unit in units(docs):
        folders = [p for d in unit.all("ReadWritePaths") for p in d.value.split()]
        for doc in unit.docs:
            for item in doc.assignments:
                named = item.name == "TIKTOKEN_RS_CACHE_DIR" and item.value
                if named and below(item.value or "", *folders):
                    yield Found(
                        item.at, "the service may delete its own vocabulary",
                        f"keep it outside: root's, mode 0755, ReadOnlyPaths={item.value}",
                        sees=item.value or "",
                    )  # fmt: skip
