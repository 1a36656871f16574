"""Write the golden unit anew: `python -m tests.unit.golden`, then read the difference."""

from __future__ import annotations

from sparkwright.units import render_unit
from tests.unit.service_case import GOLDEN, golden_service

if __name__ == "__main__":
    GOLDEN.write_text(render_unit(golden_service()))
