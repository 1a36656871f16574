#!/bin/bash
set -eu
model=/srv/models/qwen3-32b
args=(
  --gpu-memory-utilization 0.8   # one pool for GPU and CPU
  --max-model-len 40960
  --reasoning-parser qwen3
)
if [[ "${TOOLS:-1}" == 1 ]]; then
  args+=(--enable-auto-tool-choice --tool-call-parser hermes)
fi
[[ -n "${PORT:-}" ]] && args+=(--port "$PORT")
exec /opt/vllm/bin/vllm serve "$model" "${args[@]}" "$@"
