"""EnvironmentFile=: no shell reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, How
from sparkwright.lint.registry import file_rule


@file_rule(Verdict.BLOCK)
def envfile_comment(doc: Document, ctx: Context) -> Iterator[Found]:
    """A comment behind a value in an EnvironmentFile is part of the value.

    `HF_HUB_OFFLINE=1   # stay offline` is not true for huggingface_hub, so the service goes to the
    network.

    Bad:
        HF_HUB_OFFLINE=1   # stay offline

    Good:
        # stay offline
        HF_HUB_OFFLINE=1

    Source: systemd.exec(5) EnvironmentFile=; systemd/systemd#12527, edgehero/pi-dispatch#392
    """
    for item in doc.assignments:
        value = item.value or ""
        if item.how is not How.ENVFILE or "#" not in item.raw:
            continue
        match = re.search(r"\s+#", value) or re.search(r"(?<=[\"'])\s+#", item.raw)
        if match is None:
            continue
        if re.fullmatch(r"[^=]*=\s*(\"[^\"]*\"|'[^']*')\s*", item.raw):
            continue
        clean = re.sub(r"\s+#.*", "", value, flags=re.S)
        yield Found(
            item.at, f"the comment is part of {item.name}'s value",
            f"write {item.name}={clean} and put the comment on a line of its own", sees=value,
        )  # fmt: skip


@file_rule(Verdict.BLOCK)
def envfile_name(doc: Document, ctx: Context) -> Iterator[Found]:
    """`export` and blanks before `=` make a name that systemd passes over.

    An EnvironmentFile is no script: `export X` is read as the name.

    Bad:
        export HF_HOME=/srv/hf

    Good:
        HF_HOME=/srv/hf

    Source: systemd.exec(5) EnvironmentFile=; systemd src/basic/env-file.c, v255
    """
    for item in doc.assignments:
        if item.how is How.ENVFILE and not re.fullmatch(r"[A-Za-z_]\w*", item.name):
            name = item.name.removeprefix("export").strip()
            yield Found(
                item.at, f"{item.name!r} is no name of a variable: the line is passed over",
                f"write {re.sub(r'[^A-Za-z0-9_]', '_', name)}={item.value or ''}", sees="",
            )  # fmt: skip
