"""32 machines at once, as `make test-fleet` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet import many

pytestmark = pytest.mark.lab


def test_32_machines_converge_and_one_unit_changes(tmp_path: Path) -> None:
    assert many.run(tmp_path, print) == many.MACHINES
