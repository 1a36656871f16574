"""Short option names and the long ones that rules ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sparkwright.lint.model import Engine

# vLLM 0.33.0: vllm/engine/arg_utils.py, entrypoints/common/cli_args.py, utils/argparse_utils.py.
_VLLM: Final = (
    "tp=tensor-parallel-size pp=pipeline-parallel-size dp=data-parallel-size"
    " dcp=decode-context-parallel-size pcp=prefill-context-parallel-size"
    " dpn=data-parallel-rank dpr=data-parallel-start-rank dpl=data-parallel-size-local"
    " dpa=data-parallel-address dpp=data-parallel-rpc-port dpb=data-parallel-backend"
    " dph=data-parallel-hybrid-lb dpe=data-parallel-external-lb"
    " dpm=data-parallel-multi-port-external-lb ep=enable-expert-parallel q=quantization"
    " n=nnodes r=node-rank sc=speculative-config dc=diffusion-config cc=compilation-config"
    " ac=attention-config asc=api-server-count O=optimization-level h=help v=version"
)
# llama-server --help of b11312 (commit 0c1e570): the last long name of each line.
_LLAMA: Final = (
    "h=help cl=cache-list t=threads tb=threads-batch C=cpu-mask Cr=cpu-range Cb=cpu-mask-batch"
    " Crb=cpu-range-batch c=ctx-size n=n-predict b=batch-size ub=ubatch-size fa=flash-attn"
    " e=escape kvo=kv-offload nkvo=no-kv-offload nr=no-repack ctk=cache-type-k ctv=cache-type-v"
    " dt=defrag-thold lm=load-mode lzm=lazy-mode dev=device ot=override-tensor cmoe=cpu-moe"
    " ncmoe=n-cpu-moe ncffn=n-cpu-ffn ngl=n-gpu-layers sm=split-mode ts=tensor-split mg=main-gpu"
    " fit=fit fitt=fit-target fitc=fit-ctx m=model mu=model-url dr=docker-repo hf=hf-repo"
    " hfr=hf-repo hff=hf-file hft=hf-token v=log-verbose lv=log-verbosity ctkd=cache-type-k-draft"
    " ctvd=cache-type-v-draft s=seed l=logit-bias j=json-schema jf=json-schema-file"
    " bs=backend-sampling hfd=hf-repo-draft hfrd=hf-repo-draft td=threads-draft"
    " tbd=threads-batch-draft Cd=cpu-mask-draft Crd=cpu-range-draft Cbd=cpu-mask-batch-draft"
    " otd=override-tensor-draft cmoed=cpu-moe-draft ncmoed=n-cpu-moe-draft devd=device-draft"
    " ngld=n-gpu-layers-draft md=model-draft lcs=lookup-cache-static lcd=lookup-cache-dynamic"
    " ctxcp=swa-checkpoints cms=checkpoint-min-step cram=cache-ram kvu=kv-unified"
    " no-kvu=no-kv-unified r=reverse-prompt sp=special np=parallel cb=cont-batching"
    " nocb=no-cont-batching mm=mmproj mmu=mmproj-url mmdev=mmproj-device a=alias ag=agent"
    " no-ag=no-agent to=timeout rea=reasoning sps=slot-prompt-similarity"
)


def _table(text: str) -> dict[str, str]:
    pairs = (item.split("=") for item in text.split())
    return {f"-{short}": long for short, long in pairs}


SHORT: Final[Mapping[Engine, Mapping[str, str]]] = {
    Engine.VLLM: _table(_VLLM),
    Engine.LLAMA: _table(_LLAMA),
}
