"""Tables about vLLM's variables and flags that no build tells: what replaced them, whose they are.

Sources: vllm.envs of 24 releases (0.13.0 to 0.33.0), vllm-project/vllm#39538 and #43148 (backends
as flags), namake-taro/vllm-custom and christopherowen/vllm@045293d8 (forks).
"""

from __future__ import annotations

import re
from typing import Final

# Variable -> what to write instead on a build that has the flag; {value} is the variable's.
REPLACED: Final[dict[str, tuple[str, str]]] = {
    "VLLM_ATTENTION_BACKEND": ("attention-backend", "--attention-backend {value}"),
    "VLLM_NVFP4_GEMM_BACKEND": ("linear-backend", "--linear-backend {value}"),
    "VLLM_FLASHINFER_MOE_BACKEND": ("moe-backend", "--moe-backend flashinfer_cutlass"),
    "VLLM_TEST_FORCE_FP8_MARLIN": ("moe-backend", "--moe-backend marlin --linear-backend marlin"),
    "VLLM_MXFP4_USE_MARLIN": ("moe-backend", "--moe-backend marlin"),
    "VLLM_USE_FLASHINFER_MOE_FP4": ("moe-backend", "--moe-backend flashinfer_cutlass"),
    "VLLM_USE_FLASHINFER_MOE_FP8": ("moe-backend", "--moe-backend flashinfer_cutlass"),
    "VLLM_USE_FLASHINFER_MOE_FP16": ("moe-backend", "--moe-backend flashinfer_cutlass"),
    "VLLM_ALL2ALL_BACKEND": ("all2all-backend", "--all2all-backend {value}"),
    "VLLM_USE_TRITON_FLASH_ATTN": ("attention-backend", "--attention-backend TRITON_ATTN"),
}
# The engine chooses right by itself on GB10; the switch picks kernels of other GPUs (vllm#43969).
DROP: Final = frozenset(
    {
        "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8",
        "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS",
        "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16",
        "VLLM_USE_V1",
    }
)
# Variables and flags of forks: no stock release ever had them.
FORK_VARIABLES: Final[dict[str, str]] = {
    "VLLM_MXFP4_BACKEND": "the forks of namake-taro and christopherowen (eugr build --exp-mxfp4)",
    "VLLM_SKIP_INIT_MEMORY_CHECK": "forks for GB10",
}
_FORK_PREFIXES: Final[dict[str, str]] = {
    "VLLM_USE_B12X": "local-inference-lab/vllm (B12X)",
    "VLLM_DSPARK": "the DSpark forks",
    "VLLM_TRITON_MLA_SPARSE": "forks with sparse MLA for sm_12x",
    "VLLM_OMNI": "vllm-omni",
}
FORK_FLAGS: Final[dict[str, str]] = {
    "mxfp4-backend": "christopherowen/vllm (eugr build --exp-mxfp4)",
    "mxfp4-layers": "christopherowen/vllm (eugr build --exp-mxfp4)",
}
# Flag -> what to do instead; the flags are gone in some release.
REPLACED_FLAGS: Final[dict[str, str]] = {
    "swap-space": "remove it; it had no effect before either (vllm#27984)",
    "disable-log-requests": "remove it; not logging requests is the default (never write"
    " --enable-log-requests for it, which turns them on)",
    "cuda-graph-sizes": "write --cudagraph-capture-sizes instead",
    "num-scheduler-steps": "remove it; there is one scheduler, and it overlaps by itself",
    "use-v2-block-manager": "remove it",
    "enable-reasoning": "remove it; --reasoning-parser alone turns reasoning on",
    "guided-decoding-backend": "write --structured-outputs-config.backend instead",
    "rope-scaling": "write --hf-overrides '{\"rope_parameters\": …}' instead",
    "task": "write --runner pooling or --convert instead",
    "cpu-offload-gb": "remove it; GB10's memory is one pool",
}
# Names that Kubernetes makes for services called vllm (kubernetes.io, "Environment variables").
KUBERNETES: Final = re.compile(r"VLLM_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT|PORT_\d+_\w+)")
# Read by vLLM outside of its own table, or by its images' scripts.
ALSO_READ: Final = frozenset({"VLLM_LOGGING_CONFIG_PATH", "VLLM_PLUGINS"})


def fork_of(name: str) -> str:
    """Whose variable it is; "" when it is nobody's we know."""
    if name in FORK_VARIABLES:
        return FORK_VARIABLES[name]
    return next((who for prefix, who in _FORK_PREFIXES.items() if name.startswith(prefix)), "")
