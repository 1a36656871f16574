"""What stands where systemd does not look for it: comments in values, limits.conf, login files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import At, Command, Document, Kind
from sparkwright.lint.registry import file_rule
from sparkwright.lint.rules.systemd_lines import judged
from sparkwright.lint.rules.systemd_reading import EXEC

_FREE: Final = frozenset({"Environment", "Description", "Documentation", *EXEC})
# Read at logins; no service reads them (systemd.exec(5), "Environment").
_LOGIN: Final = re.compile(
    r"(^|/)(\.bashrc|\.profile|\.bash_profile|\.zshrc|\.zprofile|\.bash_login)$"
    r"|/etc/profile\.d/|/etc/(profile|bash\.bashrc|environment)$"
)
_OURS: Final = re.compile(
    r"(TIKTOKEN|HF|HUGGINGFACE|VLLM|NCCL|GLOO|TRITON|FLASHINFER|LLAMA_ARG|CUDA|TORCH|PYTORCH|UCX)"
    r"_[A-Z_]+|LLAMA_CACHE|CUDACXX|LD_LIBRARY_PATH"
)


@file_rule(Verdict.BLOCK)
def comment_in_value(doc: Document, ctx: Context) -> Iterator[Found]:
    """A comment behind a value is part of the value.

    `Restart=always # why` is a word that systemd does not know, so it keeps the default.
    `WorkingDirectory=/srv # why` is a directory of that name.

    Bad:
        Restart=on-failure # after a crash

    Good:
        # after a crash
        Restart=on-failure

    Source: systemd.syntax(7) (tried: systemd 252, 257)
    """
    for directive in doc.directives if judged(doc) else ():
        match = re.search(r"\s+#", directive.value) if "#" in directive.value else None
        if match and directive.key not in _FREE and not directive.key.startswith("X-"):
            clean = directive.value[: match.start()]
            yield Found(
                directive.place(match.end() - 1), f"the comment is part of {directive.key}=",
                f"write {directive.key}={clean} and put the comment on a line of its own",
                sees=directive.value,
            )  # fmt: skip


@file_rule(Verdict.WARN)
def limits_conf(doc: Document, ctx: Context) -> Iterator[Found]:
    """limits.conf does not apply to system services.

    PAM reads it at logins. A service has the limits of its unit, so mlock and RDMA registration
    fail in the service only.

    Bad:
        * hard memlock unlimited

    Good:
        LimitMEMLOCK=infinity

    Source: systemd.exec(5) "Process Properties"; idzik.co, four Sparks
    """
    for key in doc.keys if doc.kind is Kind.LIMITS else ():
        item = key.path.rsplit("/", 1)[-1]
        if item in ("memlock", "nofile", "nproc", "as"):
            yield Found(
                key.at, f"a system service does not get this {item} limit",
                f"set Limit{item.upper()}=infinity in its unit", sees="",
            )  # fmt: skip
    for command in doc.commands:
        for redirect in command.redirects:
            if ">" in redirect.op and "/security/limits" in (redirect.target.text or ""):
                yield Found(
                    redirect.target.at, "a system service does not read limits.conf",
                    "set LimitMEMLOCK=infinity in its unit", sees="",
                )  # fmt: skip


@file_rule(Verdict.WARN)
def login_shell_variable(doc: Document, ctx: Context) -> Iterator[Found]:
    """A service does not read login files such as ~/.bashrc.

    By hand everything works; the service gets nothing of it, and gpt-oss answers 400 at the first
    question. `ssh host command` does not read the part below the interactive guard either.

    Bad:
        echo 'export TIKTOKEN_ENCODINGS_BASE=/srv/tk' >> ~/.bashrc

    Good:
        Environment=TIKTOKEN_ENCODINGS_BASE=/srv/tk

    Source: NVIDIA/dgx-spark-playbooks#17; systemd.exec(5) "Environment Variables"
    """
    if _LOGIN.search(doc.path):
        for item in doc.assignments:
            if _OURS.fullmatch(item.name):
                yield _login(item.at, item.name, item.value)
    for command in doc.commands:
        to = [r.target.shape for r in command.redirects if ">" in r.op]
        to += [word.shape for word in command.argv[1:]] if command.name == "tee" else []
        written = " ".join(_said(doc, command))
        match = re.search(rf"\b(?:export\s+)?({_OURS.pattern})=([^\s'\"]*)", written)
        if match and any(_LOGIN.search(target) for target in to):
            yield _login(command.at, match[1], match[match.lastindex or 0])


def _said(doc: Document, command: Command) -> list[str]:
    source = command if command.piped_from is None else doc.commands[command.piped_from]
    return [word.shape for word in source.argv]


def _login(at: At, name: str, value: str | None) -> Found:
    line = f"Environment={name}={value}" if value else f"an Environment= line for {name}"
    return Found(at, f"no service sees {name} from here", f"write {line} in its unit", sees="")
