#!/bin/bash
# Starts llama-server; options change the defaults.
MODEL=/srv/models/gpt-oss-20b.gguf
PORT=8080
CTX=32768
while [[ $# -gt 0 ]]; do
  case "$1" in
    -m|--model) MODEL="$2"; shift 2 ;;
    -p|--port) PORT="$2"; shift 2 ;;
    -c|--ctx) CTX="$2"; shift 2 ;;
    *) echo "unknown: $1" >&2; exit 1 ;;
  esac
done
if [[ ! -f "$MODEL" ]]; then
  echo "no such model: $MODEL" >&2
  exit 1
fi
llama-server -m "$MODEL" -c "$CTX" -ngl 999 -fa on --load-mode none --port "$PORT"
