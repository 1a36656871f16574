#!/bin/bash
log() { echo "[$(date +%T)] $*"; }
free_memory() {
  sync
  echo 3 | sudo tee /proc/sys/vm/drop_caches > /dev/null
}
start() {
  local model="$1" port="$2"
  log "vllm serve $model --swap-space is gone, so it is not used"
  nohup vllm serve "$model" --port "$port" --gpu-memory-utilization 0.4 > "/tmp/$port.log" 2>&1 &
}
free_memory
start /srv/models/a 8001
