"""A deploy of preflight and the push alone, for tests of the push: nothing is built or started."""

from pyinfra import host

from tasks import artifacts, preflight

data = host.data.dict()

preflight.check()
artifacts.bring(data=data)
