"""Engine container: an image under `docker run` in the foreground, as systemd's own child. Pure.

What runs inside gets the same words as on the machine itself: vLLM's and llama-server's command
lines come from the same functions. tasks/container.py brings the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright import container_inside, docker_run, images
from sparkwright.container_inside import cache_dir
from sparkwright.docker_run import Run, gpu_mode
from sparkwright.engine_facts import read_facts
from sparkwright.engines import Installed, Launch, Place, key_file
from sparkwright.resources import Spec, State, quote
from sparkwright.site import Planned, need


@dataclass(frozen=True)
class Image(Installed):
    """An image on a machine. `build` is what docker runs it by.

    + account: uid:gid of the service user there
    + gpus: "cdi", "gpus" or "none"
    + memlock: can that limit be lifted there?
    """

    account: str = "absent"
    gpus: str = "none"
    memlock: bool = False


def probes(item: Planned, place: Place) -> list[Spec]:
    """The image and its record, the account's numbers, and how docker hands out the GPU."""
    user = quote(place.user)
    lift = "prlimit --memlock=unlimited:unlimited true 2>/dev/null && echo unlimited"
    return [
        {"kind": "run", "argv": ["sh", "-c", f"id -u {user} && id -g {user} && {lift}"]},
        *docker_run.gpu_probes(),
        *images.probes(_artifact(item, place)),
    ]


def installed(item: Planned, place: Place, states: Sequence[State]) -> Image:
    """The image by its digest or id; what it knows comes from its record."""
    account, info, cdi, *image = states
    numbers: list[str] = str(account.get("out", "")).split()
    found = images.found(_artifact(item, place), image)
    return Image(
        found.reference,
        read_facts(found.facts) if found.facts and found.reference != "absent" else None,
        account=":".join(numbers[:2]) if len(numbers) > 1 else "absent",
        gpus=gpu_mode(place.gpus, info, cdi),
        memlock="unlimited" in numbers,
    )


def launch(item: Planned, place: Place, found: Installed) -> Launch:
    """`docker run` with the recipe's command inside."""
    image = found if isinstance(found, Image) else Image(found.build, found.facts)
    inside = container_inside.of(item, place, image.facts)
    container = need(item.recipe.container)
    wrong = list(inside.refused)
    what = images.named(_artifact(item, place))
    if image.build == "absent":
        wrong.append(f"image {what} is not on the machine")
    elif image.facts is None and container.serves == "vllm":
        wrong.append(f"image {what} has not been asked yet what it knows")
    run = Run(
        name=item.unit,
        image=image.build,
        account=image.account,
        words=inside.words,
        env={**_own_env(item, place), **inside.env},
        network=None if not container.port else f"{_bracket(item.listen)}:{item.port}",
        port=container.port,
        gpus=image.gpus if container.serves != "web" else "none",
        memory_gib=item.recipe.memory_gib,
        read_only=_read_only(item, place),
        writable=_writable(item, place),
        shared_memory=container.serves != "web",
        memlock=image.memlock,
    )
    must = inside.log_must, inside.log_must_not
    return Launch(docker_run.argv(run), {}, *must, tuple(wrong), inside.notes)


def _artifact(item: Planned, place: Place) -> images.Artifact:
    return place.images[need(item.recipe.container).image]


def _bracket(listen: str) -> str:
    return f"[{listen}]" if ":" in listen else listen


def _own_env(item: Planned, place: Place) -> dict[str, str]:
    """A home for a user whom the image does not know.

    Without USER, PyTorch asks for the name of the uid and fails (vllm#44548, llm-d-benchmark#1573).
    """
    cache = cache_dir(item, place)
    return {
        "HOME": cache,
        "USER": place.user,
        "LOGNAME": place.user,
        "XDG_CACHE_HOME": cache,
        "CUDA_CACHE_PATH": f"{cache}/nv",
    }


def _read_only(item: Planned, place: Place) -> dict[str, str]:
    """Paths of the machine that the container may read, each with its path inside."""
    paths = [item.weights.directory, *item.weights.library] if item.weights else []
    if need(item.recipe.container).serves != "web":
        paths.append(f"{place.data_dir}/tiktoken")
        key = key_file(item, place.etc_dir)
        # vLLM knows no key file: it gets a variable, from a file that the client reads as root.
        paths += [key] if key and not item.recipe.runs_vllm else []
    return {path: path for path in paths}


def _writable(item: Planned, place: Place) -> dict[str, str]:
    cache = cache_dir(item, place)
    volumes = need(item.recipe.container).volumes
    return {cache: cache, **{f"{cache}/{name}": inside for name, inside in volumes.items()}}
