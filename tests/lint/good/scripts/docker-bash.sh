#!/bin/bash
IMAGE=vllm-node
docker run --rm --gpus all -p 8000:8000 -v /srv/models:/models "$IMAGE" \
  bash -c -i "vllm serve /models/qwen3-next --port 8000 --gpu-memory-utilization 0.7 --load-format fastsafetensors"
