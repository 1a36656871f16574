"""`make test-vllm-pair`: a real vLLM (CPU wheels) on two lab machines, by mp and over Ray."""
