#!/bin/bash
# Two Sparks with Ray.
export NCCL_SOCKET_IFNAME=enp1s0f0np0 GLOO_SOCKET_IFNAME=enp1s0f0np0
ray start --head --port 6379
vllm serve zai-org/GLM-4.7-NVFP4 --tensor-parallel-size 2 --distributed-executor-backend ray \
  --gpu-memory-utilization 0.8 --max-model-len 65536 --tool-call-parser glm47 \
  --enable-auto-tool-choice --reasoning-parser glm45
