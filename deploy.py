"""
Converges Sparks into LLM servers: `pyinfra inventory.py deploy.py`.

The tasks in order; each module says what it leaves and what it needs.
"""

from pyinfra import host

from tasks import (
    acceptance,
    artifacts,
    base,
    container,
    cuda,
    fabric,
    llama_cpp,
    preflight,
    retired,
    serve,
    tiktoken,
    vllm,
    weights,
)

data = host.data.dict()

preflight.check()  # all machines, before anything is prepared
artifacts.bring(data=data)  # before base: its packages are in the bundle
base.install(data=data)
fabric.join(data=data)  # before everything that goes from machine to machine
cuda.install(data=data)  # before llama.cpp: cmake is told this nvcc
llama_cpp.install(data=data)
vllm.install(data=data)
container.install(data=data)  # before serve: an image that cannot be had stops nothing
weights.install(data=data)
tiktoken.install(data=data)
retired.remove(data=data)  # before serve: frees memory and ports
serve.install(data=data)
acceptance.ask(data=data)  # last: the running process is what is asked
