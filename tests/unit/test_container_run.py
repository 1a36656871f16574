"""`docker run` of a served container: what is in it, what never is, and how the GPU is given."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from sparkwright import engine_container, images
from sparkwright.docker_run import Run, gpu_mode
from sparkwright.docker_run import argv as run_argv
from sparkwright.engine_facts import read_facts
from sparkwright.errors import SparkwrightError
from sparkwright.recipe_types import Container
from tests.unit.container_case import (
    CONTAINER_PLACE,
    FOUND,
    ID,
    IMAGE,
    LLAMA,
    WEB,
    argv,
    docker_info,
    image_states,
    served,
)
from tests.unit.machine_case import DIRECTORY

NAMED = images.named(IMAGE)
VLLM = Container("lab-image", "vllm", (), 0, {}, "/health")


def facts(flags: tuple[str, ...], engine: str = "llama.cpp") -> str:
    """What an introspection program prints."""
    return json.dumps(
        {
            "engine": engine, "build": "stock", "version": "1", "env": {}, "deprecated": {},
            "flags": {name: {"choices": None, "value": None} for name in flags},
            "reasoning_parsers": [], "tool_parsers": [], "attention_backends": [],
        }
    )  # fmt: skip


def after(words: tuple[str, ...], option: str) -> list[str]:
    """Values of an option, in order."""
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def test_it_runs_in_the_foreground_by_digest_and_docker_restarts_nothing() -> None:
    words = argv(served())
    assert words[:7] == ("/usr/bin/docker", "run", "--rm", "--init", "--name", "llm-tiny", "--pull")
    assert words[7] == "never"
    assert words[words.index("--entrypoint") : words.index("--model")] == (
        "--entrypoint", "/app/llama-server", NAMED,
    )  # fmt: skip
    assert after(words, "--log-driver") == ["none"]
    assert not {"--detach", "-d", "--restart", "--privileged"} & {*words}


def test_rights_are_taken_and_memory_is_limited() -> None:
    words = argv(served())
    assert after(words, "--user") == ["998:997"]
    assert after(words, "--cap-drop") == ["ALL"]
    assert after(words, "--security-opt") == ["no-new-privileges"]
    assert after(words, "--memory") == ["10240m"]
    assert after(words, "--ulimit") == ["memlock=-1", "stack=67108864"]
    assert after(argv(served(), dataclasses.replace(FOUND, memlock=False)), "--ulimit") == [
        "stack=67108864"
    ]


def test_weights_are_read_only_at_their_own_path() -> None:
    mounts = after(argv(served()), "--mount")
    cache = "/srv/sparkwright/cache/llm-tiny"
    assert mounts == [
        f"type=bind,source={path},target={path}{end}"
        for path, end in (
            ("/srv/sparkwright/tiktoken", ",readonly"), (DIRECTORY, ",readonly"), (cache, ""),
        )
    ]  # fmt: skip


def test_a_server_that_takes_a_port_has_the_machines_network() -> None:
    words = argv(served())
    assert after(words, "--network") == ["host"]
    assert after(words, "--host") == ["127.0.0.1"]
    assert after(words, "--port") == ["8080"]
    assert "--publish" not in words


@pytest.mark.parametrize(
    ("listen", "published"),
    [("127.0.0.1", "127.0.0.1:8080:9000/tcp"), ("::1", "[::1]:8080:9000/tcp")],
)
def test_a_server_with_a_port_of_its_own_is_published(listen: str, published: str) -> None:
    words = argv(served(dataclasses.replace(LLAMA, port=9000), listen=listen))
    assert after(words, "--publish") == [published]
    assert "--network" not in words
    assert after(words, "--host") == ["0.0.0.0"]
    assert after(words, "--port") == ["9000"]


def test_only_engines_get_shared_memory_and_a_gpu() -> None:
    model, page = argv(served()), argv(served(WEB))
    assert after(model, "--shm-size") == ["10g"]
    assert after(model, "--gpus") == ["all"]
    assert "NVIDIA_VISIBLE_DEVICES=void" not in model
    assert not {"--shm-size", "--gpus"} & {*page}
    assert "NVIDIA_VISIBLE_DEVICES=void" in page


def test_cdi_is_a_device() -> None:
    words = argv(served(), dataclasses.replace(FOUND, gpus="cdi"))
    assert after(words, "--device") == ["nvidia.com/gpu=all"]
    assert "--gpus" not in words


def test_a_page_knows_the_models_and_keeps_its_data() -> None:
    recipe = {"env": {"URLS": "{endpoints}", "JSON": '{"a": "{port}"}'}, "flags": {}}
    place = dataclasses.replace(CONTAINER_PLACE, endpoints=("http://a/v1", "http://b/v1"))
    words = argv(served(WEB, recipe=recipe), place=place)
    assert words[-1] == NAMED, "the image's own command"
    assert "URLS=http://a/v1;http://b/v1" in words
    assert 'JSON={"a": "8080"}' in words
    data = "/srv/sparkwright/cache/llm-tiny/data"
    assert f"type=bind,source={data},target=/app/data" in words
    assert not [word for word in words if "TIKTOKEN" in word]


def test_a_page_is_no_model_whoever_serves_it() -> None:
    container = dataclasses.replace(WEB, command=("/app/llama-server", "--port", "{port}"), port=0)
    words = argv(served(container, recipe={"flags": {}}))
    assert words[words.index("--entrypoint") :] == (
        "--entrypoint", "/app/llama-server", NAMED, "--port", "8080",
    )  # fmt: skip


def test_an_account_that_the_image_does_not_know_has_a_name_and_a_home() -> None:
    words = argv(served())
    assert {"USER=llm", "LOGNAME=llm", "HOME=/srv/sparkwright/cache/llm-tiny"} <= {*words}


def test_the_key_is_a_file_for_llama_and_not_even_that_for_vllm() -> None:
    words = argv(served(api_key="generate"))
    key = "/etc/sparkwright/api-key"
    assert after(words, "--api-key-file") == [key]
    assert f"type=bind,source={key},target={key},readonly" in words
    assert key not in " ".join(argv(served(VLLM, recipe={"flags": {}}, api_key="generate")))


def test_vllm_gets_its_words_and_caches() -> None:
    words = argv(served(VLLM, recipe={"flags": {"max-num-seqs": 8}}))
    at = words.index("--entrypoint")
    assert words[at : at + 5] == ("--entrypoint", "vllm", NAMED, "serve", DIRECTORY)
    assert after(words, "--max-num-seqs") == ["8"]
    assert {"HF_HUB_OFFLINE=1", "VLLM_CACHE_ROOT=/srv/sparkwright/cache/llm-tiny/vllm"} <= {*words}


@pytest.mark.parametrize(
    ("known", "wrong"),
    [
        (("model", "alias", "host", "port", "ctx-size", "flash-attn", "jinja"), []),
        (("model", "alias", "host", "port", "ctx-size", "jinja"),
         ["--flash-attn: unknown to llama.cpp 1 (stock)"]),
    ],
)  # fmt: skip
def test_what_the_image_does_not_know_is_refused(known: tuple[str, ...], wrong: list[str]) -> None:
    found = dataclasses.replace(FOUND, facts=read_facts(facts(known)))
    assert list(engine_container.launch(served(), CONTAINER_PLACE, found).refused) == wrong


def test_without_image_or_facts_nothing_is_started() -> None:
    absent = dataclasses.replace(FOUND, build="absent")
    launch = engine_container.launch(served(), CONTAINER_PLACE, absent)
    assert launch.refused == (f"image {NAMED} is not on the machine",)
    launch = engine_container.launch(served(VLLM, recipe={"flags": {}}), CONTAINER_PLACE, FOUND)
    assert launch.refused == (f"image {NAMED} has not been asked yet what it knows",)


def test_a_path_that_mount_cannot_say_is_refused() -> None:
    run = Run("n", "i", "1:1", (), {}, None, 0, "none", 1, {"/a,b": "/a"}, {}, False)
    with pytest.raises(SparkwrightError, match="comma or a quote"):
        run_argv(run)


def states(account: str, **image: Any) -> list[Any]:
    return [{"out": account}, docker_info(), {"out": ""}, *image_states(**image)]


def test_installed_reads_account_limits_and_image() -> None:
    record = {"image": NAMED, "id": ID, "inputs": "x", "facts": json.loads(facts(("model",)))}
    asked = states("998\n997\nunlimited\n", record=record, digest=True)
    found = engine_container.installed(served(), CONTAINER_PLACE, asked)
    assert (found.build, found.account, found.gpus, found.memlock) == (
        NAMED, "998:997", "none", True,
    )  # fmt: skip
    assert found.facts is not None
    assert [*found.facts.flags] == ["model"]
    bare = engine_container.installed(served(), CONTAINER_PLACE, states("", record=record))
    assert (bare.build, bare.account, bare.facts, bare.memlock) == ("absent", "absent", None, False)
    loaded = engine_container.installed(served(), CONTAINER_PLACE, states("1 2", ids=("x", ID)))
    assert (loaded.build, loaded.memlock) == (ID, False)


def test_questions_and_answers_have_one_order() -> None:
    specs = engine_container.probes(served(), CONTAINER_PLACE)
    assert [spec["kind"] for spec in specs] == ["run", "run", "run", "path", "run", "run"]
    assert specs[3]["path"] == images.record(IMAGE)


CDI_FILE = {"out": "/var/run/cdi/nvidia.yaml\n"}


@pytest.mark.parametrize(
    ("engine", "cdi", "mode"),
    [
        ({"Runtimes": {"runc": {}, "nvidia": {}}}, CDI_FILE, "gpus"),
        ({"Runtimes": {"runc": {}}, "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}, CDI_FILE, "cdi"),
        ({"Runtimes": {"runc": {}}, "CDISpecDirs": ["/etc/cdi"]}, CDI_FILE, "none"),
        ({"Runtimes": {"runc": {}}, "CDISpecDirs": None}, CDI_FILE, "none"),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}, {}, "cdi"),
        ({"Runtimes": {"runc": {}}}, {"out": ""}, "none"),
    ],
)
def test_the_gpu_is_given_as_the_machine_has_it(engine: Any, cdi: Any, mode: str) -> None:
    assert gpu_mode("auto", docker_info(**engine), cdi) == mode
    for said in ("cdi", "gpus", "none"):
        assert gpu_mode(said, docker_info(**engine), cdi) == said


def test_a_docker_that_does_not_answer_gives_no_gpu() -> None:
    assert gpu_mode("auto", {"rc": 124, "out": "", "err": ""}, CDI_FILE) == "none"
