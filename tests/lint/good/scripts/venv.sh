#!/bin/bash
set -a
source /etc/vllm/settings.env
set +a
cd "$(dirname "$0")"
source .venv/bin/activate
python -m vllm.entrypoints.openai.api_server --model "$MODEL_DIR" --port "${PORT:-8000}" \
  --gpu-memory-utilization "${UTIL:-0.8}"
