"""llama.cpp alone: what `build_once_4` measures."""

from pyinfra import host

from tasks import llama_cpp

llama_cpp.install(data=host.data.dict())
