#!/bin/bash
rank=$1
vllm serve MiniMaxAI/MiniMax-M2.5 -tp 2 --nnodes 2 --node-rank "$rank" \
  --master-addr 10.0.0.1 --gpu-memory-utilization 0.8 $( [ "$rank" = 0 ] || echo --headless )
