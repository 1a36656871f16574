#!/bin/bash
for i in $(seq 1 60); do
  if curl -sf http://127.0.0.1:8000/health > /dev/null; then
    echo "vllm serve is up"
    exit 0
  fi
  sleep 5
done
if ! pgrep -af "vllm serve"; then echo "it is not even running"; fi
exit 1
