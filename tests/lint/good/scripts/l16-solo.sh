#!/usr/bin/env bash
# gpt-oss-120b on one Spark.
set -euo pipefail
MODEL="${MODEL:-openai/gpt-oss-120b}"
exec vllm serve "$MODEL" --gpu-memory-utilization 0.8 --max-model-len 131072 \
  --max-num-seqs 4 --async-scheduling
