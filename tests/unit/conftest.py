"""What every unit test begins with."""

from __future__ import annotations

import gevent
import pytest


@pytest.fixture(autouse=True)
def _clock() -> None:
    """Bring gevent's clock up to date: it stood still while other tests ran, and a limit of 30 s
    was over at once."""
    gevent.get_hub().loop.update_now()
