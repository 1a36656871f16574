"""A stand-in for a vLLM (or a llama.cpp with CUDA) that fails on a GPU which the lab has not.

`fake_vllm.py CASE`, as the first program of a unit: it writes into the unit's journal what the real
program writes in that case, and ends as that one does. What can be real is real: "vocabulary"
loads the real openai_harmony, "hub" and "no-way-out" ask the real huggingface_hub, "ninja" starts
a real program that is not there. Standard library only.
"""

from __future__ import annotations

import subprocess
import sys

# Lines of real programs, and where they were read; [N] is what a number was.
LINES = {
    # pytorch, as in many reports on wheels without sm_121 (pytorch#168065 names the machine).
    "no-kernels": "RuntimeError: CUDA error: no kernel image is available for execution on the "
    "device",
    # llama.cpp's ggml_backend_cuda_get_features; B06 (hybridgroup/llama-cpp-builder#31).
    "other-kernels": "system_info: n_threads = 20 | CUDA : ARCHS = 890,900 | USE_GRAPHS = 1 |",
    # triton#8539.
    "ptxas": "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
    # torch's allocator.
    "gpu-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    # vLLM, as on a GB10 with a second server.
    "share": "ValueError: Free memory on device cuda:0 (41.2/119.7 GiB) on startup is less "
    "than desired GPU memory utilization (0.7, 83.79 GiB). Decrease GPU memory utilization or "
    "reduce GPU memory used by other processes.",
    # vllm/v1/core/kv_cache_utils.py.
    "context": "ValueError: To serve at least one request with the models's max seq len (262144), "
    "(12.0 GiB KV cache is needed, which is larger than the available KV cache memory (6.2 GiB).",
    # systemd 251 and later, of a unit that reached its MemoryMax: a lab machine has no memory
    # controller in its cgroups, so that the kernel kills nothing there.
    "killed": "llm-x.service: A process of this unit has been killed by the OOM killer.",
    # NCCL 2.21 and later with NCCL_DEBUG=INFO.
    "sockets": "spark-1:77:77 [0] NCCL INFO Using network Socket",
    # NCCL with NCCL_SOCKET_IFNAME of another machine (spark-arena/sparkrun#135).
    "interface": "spark-1:77:77 [0] NCCL WARN Bootstrap : no socket interface found",
    # vllm/config/vllm.py.
    "eager": "INFO [vllm.py:1081] Cudagraph is disabled under eager mode",
}
GOES_ON = ("other-kernels", "sockets", "eager")  # these only make it slow


def vocabulary() -> None:
    """As vLLM does for gpt-oss."""
    sys.path.insert(0, "/opt/fake/harmony")
    import openai_harmony

    openai_harmony.load_harmony_encoding(openai_harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


def hub() -> None:
    """As an engine does that is given a repository; HF_HUB_OFFLINE decides which error it is."""
    import huggingface_hub

    huggingface_hub.hf_hub_download("sparkwright-lab/absent", "config.json")


def ninja() -> None:
    """As FlashInfer does before the first request."""
    subprocess.run(["ninja", "--version"], env={"PATH": "/nonexistent"}, check=True)


REAL = {"vocabulary": vocabulary, "hub": hub, "no-way-out": hub, "ninja": ninja}


def main(case: str) -> int:
    """Say it; 1 where the real program ends."""
    if case in REAL:
        REAL[case]()
        return 0
    print(LINES[case], flush=True)
    return 0 if case in GOES_ON else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
