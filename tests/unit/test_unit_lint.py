"""The linter on our own units: all of them are clean, and a setting that does nothing is not."""

from __future__ import annotations

import dataclasses

import pytest

from sparkwright.unit_lint import linted
from sparkwright.vllm_releases import facts_of
from tests.unit.machine_case import answers, service
from tests.unit.service_case import golden_service


def test_units_of_llama_cpp_are_clean() -> None:
    assert linted(golden_service(), None) == []
    assert linted(service(answers()), None) == []


@pytest.mark.parametrize(
    ("argv", "env", "says"),
    [
        (("--no-such-flag", "1"), {}, "--no-such-flag"),
        ((), {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}, "VLLM_NVFP4_GEMM_BACKEND"),
    ],
)
def test_what_a_build_passes_over_is_stopped(
    argv: tuple[str, ...], env: dict[str, str], says: str
) -> None:
    base = golden_service()
    words = ("/opt/sparkwright/vllm/x/bin/vllm", "serve", "/srv/model", *argv)
    changed = dataclasses.replace(base, argv=words, env=env, api_key_file=None)
    found = linted(changed, facts_of("0.33.0"))
    assert any(says in text for text in found), found
