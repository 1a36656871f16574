"""Engine vllm: `vllm serve` out of the venv of a profile that tasks/vllm.py installed. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkwright import distributed, vllm_backends, vllm_server
from sparkwright.engine_facts import EngineFacts, read_facts, refused
from sparkwright.engines import Installed, Launch, Place
from sparkwright.errors import SparkwrightError
from sparkwright.resources import Spec, State
from sparkwright.site import Planned, need

FACTS = ".introspect.json"
CUDA_HOME = "/usr/local/cuda"
STRICT = "fail-on-environ-validation"
# Programs that Triton brings: from 3.6 on a second ptxas, which knows GB10's sm_121a; the only one
# of 3.5 and older does not (triton-lang/triton#8539; triton/backends/nvidia/compiler.py).
TRITON = "lib/python3*/site-packages/triton/backends/nvidia/bin"
PTXAS_NEW = "ptxas-blackwell"
RAY = "bin/ray"
MADE = "made:"
# Lines of a vLLM that serves nothing, or not what the recipe says, in every release from 0.17 on:
# v1/engine/core.py and v1/engine/exceptions.py.
BROKEN = (r"EngineCore (failed to start|encountered a fatal error)", r"\bEngineDeadError\b")
# envs.py, validate_environ, where STRICT is not there.
UNKNOWN = "Unknown vLLM environment variable detected"
# platforms/__init__.py: vLLM found no GPU that it can use, and goes on without.
ON_CPU = r"Automatically detected platform cpu"


@dataclass(frozen=True)
class Venv(Installed):
    """A venv on a machine. `build` is its directory's name.

    + old_triton: it compiles with a ptxas that does not know the GPU; ray: it has Ray
    """

    old_triton: bool = False
    ray: bool = False


def probes(item: Planned, place: Place) -> list[Spec]:
    """Which venv is current for the profile, what it says of itself, when it was made, and Triton's
    programs."""
    current = f"{place.prefix}/vllm/{item.profile}"
    return [
        {"kind": "path", "path": current},
        {"kind": "path", "path": f"{current}/{FACTS}", "text": True},
        {
            "kind": "run",
            "argv": ["sh", "-c", _what_is_there(current)],
        },
    ]


def _what_is_there(venv: str) -> str:
    made = f"stat -c {MADE}%Y-%i {venv}/.stamp"
    return f"{made}; ls {venv}/{TRITON}; ls {venv}/{RAY}"


def installed(item: Planned, place: Place, states: Sequence[State]) -> Venv:
    """The venv by its own name, not by the link: a switched link alone changes no process."""
    text, words = states[1].get("text", ""), states[2].get("out", "").split()
    programs = [word for word in words if not word.startswith(MADE)]
    return Venv(
        states[0].get("target", "absent"),
        read_facts(text) if text else None,
        made="".join(word for word in words if word.startswith(MADE)),
        old_triton="ptxas" in programs and PTXAS_NEW not in programs,
        ray=any(program.endswith(f"/{RAY}") for program in programs),
    )


def launch(item: Planned, place: Place, found: Installed) -> Launch:
    """`vllm serve` with the backend that this build wants for the recipe's kernels."""
    venv = f"{place.prefix}/vllm/{found.build}"
    backend, wrong = choose(item, found.facts)
    argv = (f"{venv}/bin/vllm", "serve", *_words(item, found, backend))
    env = environment(f"{place.data_dir}/cache/{item.unit}", place)
    # FlashInfer and Triton look for nvcc, ninja and gcc in PATH, which systemd keeps short
    # (flashinfer#3386, vllm#49497).
    env["PATH"] = f"{venv}/bin:{CUDA_HOME}/bin:/usr/local/bin:/usr/bin:/bin"
    env |= {"CUDA_HOME": CUDA_HOME, **_compiler(found), **backend.env, **item.recipe.env}
    if found.facts:
        wrong = [*wrong, *refused(argv[3:], env, found.facts)]
    elif found.build != "absent":
        wrong = [f"{venv}/{FACTS} is missing: what this build knows cannot be checked"]
    logs = backend.log_must, backend.log_must_not
    wrong += _no_ray(item, found)
    return _with_ray(item, venv, Launch(argv, env, *logs, tuple(wrong), backend.notes))


def _words(item: Planned, found: Installed, backend: vllm_backends.Backend) -> tuple[str, ...]:
    member = item.member
    words = vllm_server.words(
        vllm_server.without_idle(item.recipe, found.facts),
        model=need(item.weights).directory,
        port=item.port,
        # What nobody asks listens nowhere: the same words on every worker.
        listen="127.0.0.1" if member and not member.is_head else item.listen,
        backend=backend.flags,
    )
    return words + distributed.vllm_words(item.recipe, item.port, member)


def _no_ray(item: Planned, found: Installed) -> list[str]:
    """vLLM itself does not require Ray (metadata of 0.32), and vllm-stock.txt has none."""
    wanted = item.recipe.spread.distributed == "ray" and found.build != "absent"
    if not wanted or (isinstance(found, Venv) and found.ray):
        return []
    return [
        f"distributed: ray needs Ray's wheel, which the profile {item.profile} has not; use a "
        "profile with it, or set distributed: mp"
    ]


def _with_ray(item: Planned, venv: str, launch: Launch) -> Launch:
    """The head is told which Ray it belongs to; a worker is Ray itself, and vLLM runs inside."""
    member = item.member
    if member is None or item.recipe.spread.distributed != "ray":
        return launch
    env = {**launch.env, **distributed.ray_env(item.port, member)}
    if member.is_head:
        return dataclasses.replace(launch, env=env)
    argv = distributed.ray_words(f"{venv}/bin/ray", item.port, member)
    return dataclasses.replace(launch, argv=argv, env=env)


def _compiler(found: Installed) -> dict[str, str]:
    """The toolkit's ptxas in place of one that is older than the GPU (vllm#32575)."""
    old = isinstance(found, Venv) and found.old_triton
    return {"TRITON_PTXAS_PATH": f"{CUDA_HOME}/bin/ptxas"} if old else {}


def choose(item: Planned, facts: EngineFacts | None) -> tuple[vllm_backends.Backend, list[str]]:
    """The backend for the recipe's kernels with what every vLLM of ours has, and why there is none.

    In an image, variables are set that are not ours (eugr's sets VLLM_BASE_DIR, which vLLM does
    not know): only a venv is started so that an unknown one ends it.
    """
    found, wrong = vllm_backends.Backend({}, {}, (), (), ()), []
    try:
        found = vllm_backends.choose(item.recipe.kernels, facts) if facts else found
    except SparkwrightError as error:
        wrong = str(error).splitlines()
    if facts and item.recipe.kernels == "nvfp4" and _drafts_too_early(item, facts):
        wrong.append(
            f"speculative-config: {facts.title} cannot draft with NVFP4 on one spark (NVIDIA's "
            "guide for Nemotron-3-Super); remove it, or use a newer profile or image"
        )
    bad = [*found.log_must_not, *BROKEN]
    flags = dict(found.flags)
    if item.recipe.engine == "vllm":
        bad.append(UNKNOWN)
        flags |= {STRICT: True} if facts and STRICT in facts.flags else {}
    if facts and "cpu" not in facts.version:
        bad.append(ON_CPU)
    return dataclasses.replace(found, flags=flags, log_must_not=tuple(dict.fromkeys(bad))), wrong


def _drafts_too_early(item: Planned, facts: EngineFacts) -> bool:
    """0.17.1 lacks it; NVIDIA-NeMo/Nemotron, SparkDeploymentGuide, says so of that release."""
    drafts = "speculative-config" in item.recipe.flags
    return drafts and facts.build == "stock" and vllm_backends.release(facts.version) < (0, 18)


def environment(cache: str, place: Place) -> dict[str, str]:
    """What every vLLM process of ours has: caches in one place, no network, the vocabulary.

    vLLM 0.31 and newer carry the vocabulary, and read it from here all the same when told so
    (oss-harmony); the file is there before the unit starts (tasks/tiktoken.py).

    + cache: the unit's own directory
    """
    tiktoken: Mapping[str, str] = place.tiktoken
    return {**vllm_server.caches(cache), **vllm_server.OFFLINE, **tiktoken}
