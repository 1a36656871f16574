#!/bin/bash
python3 -m sglang.launch_server --model-path openai/gpt-oss-20b --port 30000 \
  --mem-fraction-static 0.7
