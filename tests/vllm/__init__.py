"""`make test-vllm`: a lab machine converges a real vLLM (CPU wheels), answers, and refuses."""
