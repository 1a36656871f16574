"""Everything that a machine has before anything large is brought to it."""

from pyinfra import host

from tasks import base, preflight, weights

data = host.data.dict()
preflight.check()
base.install(data=data)
weights.install(data=data)
