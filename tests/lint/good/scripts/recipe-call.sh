#!/bin/bash
./launch-cluster.sh -t vllm-node exec vllm serve Qwen/Qwen3-VL-32B-FP8 \
  --port 8000 --gpu-memory-utilization 0.7 -tp 2 --load-format fastsafetensors
