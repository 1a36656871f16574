"""A deploy file: the journal's configuration and its restart, as tasks/base.py has them."""

from __future__ import annotations

from sparkwright.operations import ensure
from tasks.base import journal

ensure(name="Keep the journal, with a limit", resources=journal())
