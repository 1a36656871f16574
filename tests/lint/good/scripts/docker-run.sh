#!/usr/bin/env bash
set -e
docker run -it --rm --gpus all --network host --ipc host \
  -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
  -e HF_TOKEN \
  --name vllm_node \
  vllm/vllm-openai:v0.33.0 \
  openai/gpt-oss-120b --gpu-memory-utilization 0.75 --max-num-seqs 8
