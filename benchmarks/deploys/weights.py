"""The weights alone: what `spread_8` measures."""

from pyinfra import host

from tasks import weights

weights.install(data=host.data.dict())
