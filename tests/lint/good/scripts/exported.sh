#!/bin/sh
export HF_HOME=/srv/hf
export VLLM_CACHE_ROOT=/var/cache/vllm VLLM_NO_USAGE_STATS=1
export TRITON_CACHE_DIR=/var/cache/triton
exec /opt/vllm/bin/vllm serve /srv/models/qwen3-32b --gpu-memory-utilization 0.6 --port 8001
