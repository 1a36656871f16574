"""Collects the case files: facts/<module>.<Fact>/*.yaml and operations/<module>.<name>/*.yaml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from pyinfra.api.state import StateStage

# pyinfra's CLI, which the harness imports, patches threads and sockets of the whole process: the
# servers in other tests are real threads.
with patch("gevent.monkey.patch_all"):
    from pyinfra_testing.facts import make_fact_tests
    from pyinfra_testing.operations import make_operation_tests
    from pyinfra_testing.util import FakeState

HERE = Path(__file__).parent
# pyinfra-testing 0.2.1 has no stage; ours say "drift" or "changing" by it.
FakeState.current_stage = StateStage.Prepare
# The fact's command is the probe's whole text; tests/unit/test_probe.py runs it.
pytestmark = pytest.mark.filterwarnings("ignore:No command set for test")


def _collect(kind: str, make: Any) -> None:
    for place in sorted((HERE / kind).iterdir()):
        module = place.name.split(".")[0]
        package = "tests.cases" if module == "adapters" else "sparkwright"
        name = f"Test_{kind}_{re.sub(r'[^a-z]', '_', place.name.lower())}"
        globals()[name] = make(package, place.name, place)


_collect("facts", make_fact_tests)
_collect("operations", make_operation_tests)


@pytest.mark.parametrize("path", sorted(HERE.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_case_says_how_a_converged_machine_looks(path: Path) -> None:
    """A case without commands names its reason; one with commands has none."""
    case = yaml.safe_load(path.read_text())
    if "commands" in case:
        assert bool(case["commands"]) is ("noop_description" not in case)
