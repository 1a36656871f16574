"""The first tasks of the project's deploy.py, as they are: up to where llama.cpp is built."""

from pyinfra import host

from tasks import base, cuda, preflight

data = host.data.dict()

preflight.check()
base.install(data=data)
cuda.install(data=data)
