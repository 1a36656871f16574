"""The vocabulary that gpt-oss needs: which variable wants which file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sparkwright.errors import nearest
from sparkwright.lint.context import Context, is_gpt_oss
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.harmony import HARMONY, needs_seed, vocabulary_inside
from sparkwright.lint.model import Assignment, Document, Engine, Launch
from sparkwright.lint.registry import file_rule, files_rule, launch_rule
from sparkwright.lint.rules.systemd_reading import assignments

# sha1 of the address of o200k_base.tiktoken: its name in a cache directory (openai-harmony 0.0.8).
_BY_SHA1: Final = "fb374d419588a4632f3f557e76b4b70aebbca790"
_TWO: Final = (
    "either TIKTOKEN_ENCODINGS_BASE=<dir> with o200k_base.tiktoken in it, or "
    f"TIKTOKEN_RS_CACHE_DIR=<dir> with the file named {_BY_SHA1}"
)


def _of_harmony(doc: Document) -> Iterator[Assignment]:
    return (item for item in assignments(doc) if item.name in HARMONY)


@file_rule(Verdict.BLOCK)
def seed_path(doc: Document, ctx: Context) -> Iterator[Found]:
    """A harmony directory that is no plain absolute path.

    The value is taken as a path as it stands: an empty one, `file://…`, `http://…`, quotes, `~`
    and a comment behind it all end in "invalid tiktoken vocab file: No such file or directory". A
    relative path depends on the working directory.

    Bad:
        TIKTOKEN_ENCODINGS_BASE=file:///srv/tk

    Good:
        TIKTOKEN_ENCODINGS_BASE=/srv/tk

    Source: openai/harmony#95, #101 (tried: openai-harmony 0.0.8)
    """
    for item in _of_harmony(doc):
        value = item.value
        if value is None or re.fullmatch(r"/[^\s\"']*", value):
            continue
        clean = re.sub(r"^[\"'\s]*(file://)?|[\"']|\s+#.*|\s+$", "", value)
        path = clean if clean.startswith("/") else "/srv/tiktoken"
        yield Found(
            item.at, f"harmony takes {value!r} as a path as it stands",
            f"write {item.name}={path}", sees=value,
        )  # fmt: skip


@files_rule(Verdict.BLOCK)
def seed_layout(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """The vocabulary lies under a name that its variable does not look for.

    TIKTOKEN_RS_CACHE_DIR wants a file named by the sha1 of its address; o200k_base.tiktoken in it
    is not looked at, and harmony goes to the network. TIKTOKEN_ENCODINGS_BASE wants the plain name.

    Bad:
        cp o200k_base.tiktoken /srv/tk/
        export TIKTOKEN_RS_CACHE_DIR=/srv/tk

    Good:
        cp o200k_base.tiktoken /srv/tk/
        export TIKTOKEN_ENCODINGS_BASE=/srv/tk

    Source: openai/harmony#46 (tried: openai-harmony 0.0.8)
    """
    plain, hashed = _placed(docs)
    for doc in docs:
        values = {item.name: (item.value or "").rstrip("/") for item in _of_harmony(doc)}
        for item in _of_harmony(doc):
            folder = (item.value or "").rstrip("/")
            is_cache = item.name == "TIKTOKEN_RS_CACHE_DIR"
            if folder.endswith(".tiktoken"):
                wrong = f"{item.name} names a file, not its directory"
            elif is_cache and _all_inside(doc, ctx):
                continue
            elif is_cache and folder in plain - hashed and values.get(HARMONY[0]) != folder:
                wrong = f"o200k_base.tiktoken in {folder} is not looked at"
            elif not is_cache and folder in hashed - plain:
                wrong = f"{folder} holds the file under its sha1 name, which is not looked at"
            else:
                continue
            yield Found(item.at, wrong, _TWO, sees=folder)


def _all_inside(doc: Document, ctx: Context) -> bool:
    return bool(doc.launches) and all(vocabulary_inside(one, ctx) for one in doc.launches)


def _placed(docs: Sequence[Document]) -> tuple[set[str], set[str]]:
    """Directories into which the files put the vocabulary: by its plain name, by its sha1."""
    plain, hashed = set[str](), set[str]()
    for doc in docs:
        words = [word.shape for launch in doc.launches for word in launch.container]
        words += [key.value or "" for key in doc.keys]
        for command in doc.commands:
            texts = [word.shape for word in command.argv]
            words += texts + [redirect.target.shape for redirect in command.redirects]
            words += _into(texts)
        for word in words:
            for path in re.findall(r"(/[^\s:\"',]+)", word):
                if path.endswith(".tiktoken"):
                    plain.add(path.rpartition("/")[0])
                elif path.endswith(_BY_SHA1):
                    hashed.add(path.rpartition("/")[0])
    return plain, hashed


def _into(texts: list[str]) -> Iterator[str]:
    """`cp x.tiktoken DIR` and `wget -P DIR …/x.tiktoken`: the path that is made."""
    names = [t.rsplit("/", 1)[-1] for t in texts if t.endswith((".tiktoken", _BY_SHA1))]
    if names and texts[0].rsplit("/", 1)[-1] in ("cp", "mv", "install", "rsync", "ln"):
        yield f"{texts[-1].rstrip('/')}/{names[0]}"
    for at, text in enumerate(texts):
        if names and text in ("-P", "--directory-prefix", "--output-dir") and at + 1 < len(texts):
            yield f"{texts[at + 1].rstrip('/')}/{names[0]}"


@launch_rule(Verdict.BLOCK, Verdict.WARN, Verdict.NOTE)
def seed_missing(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """gpt-oss without a vocabulary for harmony, where it cannot be fetched.

    harmony is written in Rust: it does not read TIKTOKEN_CACHE_DIR, and TIKTOKEN_OFFLINE is read
    by nothing. Without a seed it downloads at the first request, ignores the system's certificates
    (so a proxy with its own CA breaks it), and answers 400 when it cannot. vLLM 0.31 and newer
    have the vocabulary inside (oss-harmony) and need none: nothing is said of them, and when the
    release is only assumed it is a NOTE.

    Bad:
        HF_HUB_OFFLINE=1 vllm serve /srv/openai/gpt-oss-120b

    Good:
        HF_HUB_OFFLINE=1 TIKTOKEN_ENCODINGS_BASE=/srv/tk vllm serve /srv/openai/gpt-oss-120b

    Source: NVIDIA/dgx-spark-playbooks#17, openai/harmony#46 (tried: openai-harmony 0.0.8);
        vllm/requirements/common.txt, v0.31.0
    """
    if launch.engine is not Engine.VLLM or not is_gpt_oss(launch, ctx):
        return
    inside = vocabulary_inside(launch, ctx)
    if any(launch.get(name) is not None for name in HARMONY):
        return
    item, why = needs_seed(launch)
    if item is None or inside:
        return
    unknown = launch.env_unknown or inside is None
    # Offline for the hub need not be offline for harmony: the machine may have a network.
    verdict = Verdict.BLOCK if "does not read" in why else Verdict.WARN
    yield Found(
        item.at, why + (" (unless it is 0.31 or newer)" if inside is None else ""),
        f"set {_TWO}", sees=item.raw,
        verdict=Verdict.NOTE if unknown else verdict,
    )  # fmt: skip


@file_rule(Verdict.WARN)
def unknown_tiktoken_variable(doc: Document, ctx: Context) -> Iterator[Found]:
    """A TIKTOKEN_ variable that nothing reads.

    harmony reads TIKTOKEN_ENCODINGS_BASE and TIKTOKEN_RS_CACHE_DIR, Python's tiktoken reads
    TIKTOKEN_CACHE_DIR. There is no TIKTOKEN_OFFLINE.

    Bad:
        TIKTOKEN_OFFLINE=1

    Good:
        TIKTOKEN_ENCODINGS_BASE=/srv/tk

    Source: openai/tiktoken#513, #369; openai-harmony 0.0.8 and tiktoken 0.12, by their strings
    """
    for item in assignments(doc):
        known = (*HARMONY, "TIKTOKEN_CACHE_DIR")
        if item.name.startswith("TIKTOKEN_") and item.name not in known:
            if item.name in doc.expanded:
                continue
            near = nearest(item.name, known) if item.name != "TIKTOKEN_OFFLINE" else ""
            fix = near if near.startswith("did") else f"remove it; {_TWO}"
            yield Found(item.at, f"nothing reads {item.name}", fix, sees="")
