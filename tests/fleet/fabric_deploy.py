"""deploy.py without what the fabric does not need: a converge of it takes seconds, not minutes."""

from pyinfra import host
from pyinfra.api import deploy

from sparkwright.operations import ensure
from tasks import base, fabric, preflight


@deploy("programs")
def programs() -> None:
    """What tasks/base.py puts on a machine first."""
    ensure(name="Put our programs on the machine", resources=base.programs())


preflight.check()
programs()
fabric.join(data=host.data.dict())
