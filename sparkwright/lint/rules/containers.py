"""Rules about containers: what reaches the engine inside, and what a start removes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import GPU_ENGINES, Assignment, Document, How, Launch
from sparkwright.lint.parse import docker
from sparkwright.lint.registry import file_rule, launch_rule
from sparkwright.lint.variables import ENGINE_NAMES

WARN, BLOCK, NOTE = Verdict.WARN, Verdict.BLOCK, Verdict.NOTE


def _engine_container(doc: Document) -> list[Launch]:
    return [one for one in doc.launches if one.image is not None and one.engine in GPU_ENGINES]


@file_rule(WARN)
def forced_removal(doc: Document, ctx: Context) -> Iterator[Found]:
    """`docker rm -f NAME` before the start: whatever runs under that name is killed.

    A model that serves somebody else dies without a question, and its memory comes back late.

    Bad:
        docker rm -f vllm; docker run --name vllm vllm/vllm-openai:v0.33.0 --model /srv/m

    Good:
        docker run --rm --name vllm vllm/vllm-openai:v0.33.0 --model /srv/m

    Source: vllm-project/vllm#45179; MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#193
    """
    if not _engine_container(doc):
        return
    for command in doc.commands:
        words = command.texts()
        removes = command.name in docker.PROGRAMS and "rm" in words[1:3]
        if removes and any(re.fullmatch(r"-\w*f\w*|--force", word) for word in words[2:]):
            yield Found(
                command.at,
                "it removes whatever runs under that name, a serving model too",
                "stop it by hand first, or look whether it is the one of this script",
                sees=" ".join(words),
            )


@launch_rule(WARN)
def variable_outside_container(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A variable that is exported on the host and not given to the container.

    A container inherits nothing: only `-e`, `--env` and `--env-file` reach the engine.

    Bad:
        export HF_HUB_OFFLINE=1; docker run vllm/vllm-openai:v0.33.0 --model /srv/m

    Good:
        docker run -e HF_HUB_OFFLINE=1 vllm/vllm-openai:v0.33.0 --model /srv/m

    Source: docker run reference, "Set environment variables (-e, --env, --env-file)"
    """
    if launch.image is None or launch.engine not in GPU_ENGINES:
        return
    given = {item.name for item in launch.env}
    for item in launch.lost:
        outside = item.how in (How.EXPORT, How.PREFIX)
        missed = outside and ENGINE_NAMES.fullmatch(item.name) and item.name not in given
        if missed and not _used(doc, item) and launch.where != "recipe":
            yield Found(
                item.at,
                f"{item.name} stays outside of the container",
                f"add -e {item.name} to the docker line",
                sees=f"no {item.name} in the engine's environment",
            )


def _used(doc: Document, item: Assignment) -> bool:
    return item.name in doc.expanded or item.name in doc.passed


@launch_rule(BLOCK)
def quoted_docker_value(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """Quotes or a comment in a file for docker's `--env-file`.

    Docker takes the whole rest of the line as the value, quotes and comments included: the engine
    gets `"1"`, and huggingface_hub calls that false.

    Bad:
        HF_HUB_OFFLINE="1"

    Good:
        HF_HUB_OFFLINE=1

    Source: docker/cli opts/envfile.go; docker run reference, --env-file
    """
    for item in launch.env:
        value = item.value or ""
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        commented = re.search(r"\s#", value) is not None
        if item.how is How.DOCKER_FILE and (quoted or commented):
            bare = re.split(r"\s+#", value)[0].strip().strip("\"'")
            yield Found(
                item.at,
                f"docker gives {item.name} its quotes or comment as part of the value",
                f"write {item.name}={bare}",
                sees=value,
            )
