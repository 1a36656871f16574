"""Entry point of the platform beside this; units without Ray keep vLLM's own."""

from __future__ import annotations

import os


def register() -> str | None:
    return "sparkwright_lab_platform.RayCpu" if os.environ.get("RAY_ADDRESS") else None
