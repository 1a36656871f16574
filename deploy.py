"""
Converges Sparks into LLM servers: `pyinfra inventory.py deploy.py`.

The tasks in order; each module says what it leaves and what it needs.
"""

from pyinfra import host

from tasks import (
    artifacts,
    base,
    container,
    cuda,
    fabric,
    llama_cpp,
    preflight,
    serve,
    tiktoken,
    vllm,
    weights,
    writer,
)

data = host.data.dict()

preflight.check()  # all machines, before anything is prepared
writer.lock()  # all machines, before anything is changed
artifacts.bring(data=data)  # before base: its packages are in the bundle
base.install(data=data)
fabric.join(data=data)  # before everything that goes from machine to machine
cuda.install(data=data)  # before llama.cpp: cmake is told this nvcc
llama_cpp.install(data=data)
vllm.install(data=data)
container.install(data=data)  # before serve: an image that cannot be had stops nothing
weights.install(data=data)
tiktoken.install(data=data)
serve.install(data=data)  # last: removes, runs and asks, machine by machine
