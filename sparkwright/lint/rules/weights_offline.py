"""Hub variables that nothing reads, and offline starts that still ask the hub."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine, How, Launch
from sparkwright.lint.registry import file_rule, launch_rule
from sparkwright.lint.rules.systemd_reading import assignments
from sparkwright.lint.rules.weights_hub import old_client

# Names in huggingface_hub 0.34.4 and 2.4.0, hf_xet 1.8.0, transformers 5.24.0, datasets.
_READ: Final = """
HF_ASSETS_CACHE HF_DEBUG HF_DEVICE_CODE_OAUTH_CLIENT_ID HF_EDITOR HF_ENABLE_PARALLEL_LOADING
HF_ENDPOINT HF_EVALUATE_OFFLINE HF_HOME HF_HUB_CACHE HF_HUB_DISABLE_EXPERIMENTAL_WARNING
HF_HUB_DISABLE_IMPLICIT_TOKEN HF_HUB_DISABLE_PROGRESS_BARS HF_HUB_DISABLE_SHARED_BLOBS
HF_HUB_DISABLE_SYMLINKS HF_HUB_DISABLE_SYMLINKS_WARNING HF_HUB_DISABLE_TELEMETRY
HF_HUB_DISABLE_UPDATE_CHECK HF_HUB_DISABLE_XET HF_HUB_DOWNLOAD_TIMEOUT
HF_HUB_ENABLE_HF_TRANSFER HF_HUB_ETAG_TIMEOUT HF_HUB_LOCAL_DIR_AUTO_SYMLINK_THRESHOLD
HF_HUB_OFFLINE HF_HUB_USER_AGENT_ORIGIN HF_HUB_VERBOSITY HF_INFERENCE_ENDPOINT
HF_MAX_PARALLEL_LOADING_WORKERS HF_MODULES_CACHE HF_OIDC_ID_TOKEN HF_OIDC_RESOURCE
HF_OVERWRITE_TORCH_CACHE HF_STORED_TOKENS_PATH HF_TOKEN HF_TOKEN_PATH HF_UPDATE_DOWNLOAD_COUNTS
HF_XET_CACHE HF_XET_HIGH_PERFORMANCE HF_XET_HP HUGGINGFACE_ASSETS_CACHE HUGGINGFACE_CO_STAGING
HUGGINGFACE_CO_URL_HOME HUGGINGFACE_CO_URL_TEMPLATE HUGGINGFACE_HUB_CACHE
HUGGING_FACE_HUB_TOKEN
"""
_OTHERS: Final = re.compile(
    r"HF_(XET|DATASETS|EVALUATE|METRICS|SPACES|DEACTIVATE|DAGSHUB|DVCLIVE|MLFLOW)_\w+"
)
_BOOLEANS: Final = re.compile(
    r"HF_HUB_(OFFLINE|DISABLE_\w+|ENABLE_\w+)|HF_XET_HIGH_PERFORMANCE|TRANSFORMERS_OFFLINE|HF_DEBUG"
)
_TRUE: Final = frozenset(("1", "on", "yes", "true"))
_FALSE: Final = frozenset(("0", "off", "no", "false", ""))


@functools.cache
def read_names() -> frozenset[str]:
    """Variables that the hub's client, its transfer library or libraries beside them read."""
    return frozenset(_READ.split())


@file_rule(Verdict.WARN)
def hf_transfer(doc: Document, ctx: Context) -> Iterator[Found]:
    """HF_HUB_ENABLE_HF_TRANSFER does nothing since huggingface_hub 1.0.

    Downloads go through xet. The client prints a warning and is as fast as without.

    Bad:
        HF_HUB_ENABLE_HF_TRANSFER=1

    Good:
        HF_XET_HIGH_PERFORMANCE=1

    Source: huggingface_hub constants.py, 1.0.1 and 2.4.0
    """
    for item in assignments(doc):
        on = (item.value or "1").lower() not in _FALSE
        if item.name == "HF_HUB_ENABLE_HF_TRANSFER" and on and old_client(doc.text, ()) is not True:
            yield Found(
                item.at, "huggingface_hub 1.0 and later do not use hf_transfer",
                "write HF_XET_HIGH_PERFORMANCE=1", sees="a warning",
            )  # fmt: skip


@file_rule(Verdict.WARN)
def unknown_hub_variable(doc: Document, ctx: Context) -> Iterator[Found]:
    """A variable of the hub's that nothing reads.

    Often a word is missing: HF_OFFLINE for HF_HUB_OFFLINE, HF_CACHE for HF_HUB_CACHE. The client
    says nothing and goes to the network.

    Bad:
        HF_OFFLINE=1

    Good:
        HF_HUB_OFFLINE=1

    Source: names in huggingface_hub 0.34.4 and 2.4.0, and in hf_xet 1.8.0
    """
    for item in assignments(doc):
        name = item.name
        if name == "TRANSFORMERS_CACHE":
            yield Found(
                item.at, "transformers 5 does not read TRANSFORMERS_CACHE",
                f"write HF_HUB_CACHE={item.value or '…'}", sees="",
            )  # fmt: skip
        if not name.startswith(("HF_", "HUGGINGFACE_", "HUGGING_FACE_")) or name in read_names():
            continue
        if item.how is How.SHELL or _OTHERS.fullmatch(name) or _used(doc, name):
            continue
        near = difflib.get_close_matches(name, sorted(read_names()), n=1, cutoff=0.8)
        if near or name.startswith("HF_HUB_"):
            fix = f"write {near[0]}" if near else "remove it"
            yield Found(item.at, f"neither huggingface_hub nor hf_xet reads {name}", fix, sees="")


def _used(doc: Document, name: str) -> bool:
    """Whether the file itself uses it: then it is the script's own."""
    return name in doc.expanded


@file_rule(Verdict.BLOCK)
def hub_switch(doc: Document, ctx: Context) -> Iterator[Found]:
    """A switch of the hub's with a value that is not true for it.

    1, ON, YES and TRUE are true, everything else is false: quotes inside of the value, `y` or a
    comment behind it. With HF_HUB_OFFLINE the client then goes to the network.

    Bad:
        HF_HUB_OFFLINE=enabled

    Good:
        HF_HUB_OFFLINE=1

    Source: huggingface_hub 2.4.0, constants.py, _is_true
    """
    for item in assignments(doc):
        value = item.value
        quoted = item.how is How.DOCKER_FILE  # a rule of its own: quoted-docker-value
        if value is None or not _BOOLEANS.fullmatch(item.name) or "#" in value or quoted:
            continue
        if value.lower() not in _TRUE | _FALSE:
            yield Found(
                item.at, f"{value!r} is not true for huggingface_hub: {item.name} is off",
                f"write {item.name}=1", sees=value,
            )  # fmt: skip


@launch_rule(Verdict.WARN)
def repository_while_offline(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A repository's name as the model while offline.

    With HF_HUB_OFFLINE=1 the engine finds it only in a complete hub cache of the very user that
    runs it. A directory of --local-dir is no such cache, and some versions ask the hub anyway.

    Bad:
        HF_HUB_OFFLINE=1 vllm serve openai/gpt-oss-120b

    Good:
        HF_HUB_OFFLINE=1 vllm serve /srv/models/gpt-oss-120b \\
            --served-model-name openai/gpt-oss-120b

    Source: vllm-project/vllm#23684, #39039, #3719
    """
    model = ctx.model(launch)
    if launch.engine not in (Engine.VLLM, Engine.SGLANG) or model is None or model.text is None:
        return
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        item = launch.get(name)
        if item is None or (item.value or "").lower() not in _TRUE:
            continue
        if re.fullmatch(r"[\w.-]+/[\w.-]+", model.text) and not model.text.startswith("."):
            folder = model.text.rsplit("/", 1)[-1]
            yield Found(
                model.at, f"{model.text} is a repository, and {name} is on",
                f"write /srv/models/{folder} --served-model-name {model.text}", sees=model.text,
            )  # fmt: skip
            return


@file_rule(Verdict.WARN)
def cache_copy(doc: Document, ctx: Context) -> Iterator[Found]:
    """A copy of one model out of the hub's cache has no weights in it.

    Since huggingface_hub 2.0 the files below models--… are links to a store of the whole cache.
    rsync copies the links: 13 MB in a second, 98 of them dangling, and the worker fails much later.

    Bad:
        rsync -a ~/.cache/huggingface/hub/models--openai--gpt-oss-120b/ spark2:…

    Good:
        hf download openai/gpt-oss-120b --local-dir /srv/models/gpt-oss-120b
        rsync -a /srv/models/gpt-oss-120b/ spark2:/srv/models/gpt-oss-120b/

    Source: eugr/spark-vllm-docker#408, #411; huggingface_hub 2.0.0, utils/_shared_blobs.py
    """
    off = any(i.name == "HF_HUB_DISABLE_SHARED_BLOBS" and (i.value or "") in ("1", "true")
              for i in assignments(doc))  # fmt: skip
    for command in doc.commands:
        if command.name not in ("rsync", "scp", "cp") or off:
            continue
        texts = [word.shape for word in command.argv[1:]]
        follows = any(re.match(r"-\w*L|--copy-links|--dereference", text) for text in texts)
        if command.name == "scp" or follows:
            continue
        for word in command.argv[1:-1]:
            if "/models--" in word.shape or word.shape.startswith("models--"):
                yield Found(
                    word.at, f"{command.name} copies links: their files lie beside models--…",
                    "copy a directory that hf download --local-dir made, or set "
                    "HF_HUB_DISABLE_SHARED_BLOBS=1 for the download", sees=word.raw,
                )  # fmt: skip
                break
