"""The CUDA side without a GPU: a lab machine configures and compiles llama.cpp for sm_121a.

`python -m tests.cuda` (or `make test-cuda`), opt-in: the host needs nvcc 13.
"""
