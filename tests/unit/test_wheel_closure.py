"""Whether a set of wheels is closed on a Spark, whatever computer asks."""

from __future__ import annotations

import pytest

from tests.wheels.closure import problems

METADATA = {
    "top": [
        "Low>=1",
        "more[x]; extra == 'cu13'",
        "win; sys_platform == 'win32'",
        "intel; platform_machine == 'x86_64'",
        "old; python_version < '3.12'",
    ],
    "low": [],
    "more": ["deep; extra == 'x'", "never; extra == 'y'"],
    "deep": ["top"],
}
VERSIONS = {"top": "2", "low": "1.5", "more": "1+cu130", "deep": "0.1rc1"}


def found(roots: list[str], versions: dict[str, str]) -> tuple[list[str], set[str]]:
    def metadata(name: str) -> str:
        lines = "".join(f"Requires-Dist: {text}\n" for text in METADATA[name])
        return f"Metadata-Version: 2.1\nName: {name}\n{lines}\nRequires-Dist: in-the-text\n"

    return problems(roots, versions, metadata)


def test_markers_are_a_sparks_and_extras_are_followed() -> None:
    assert found(["top==2"], VERSIONS) == ([], {"top", "low"})
    assert found(["top[cu13]"], VERSIONS) == ([], {"top", "low", "more", "deep"})


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ({**VERSIONS, "low": "0.9"}, "top requires Low>=1, the set has low 0.9"),
        ({"top": "2"}, "top requires Low>=1, which is not in the set"),
        ({**VERSIONS, "top": "3"}, "the set requires top[cu13]==2, the set has top 3"),
    ],
)
def test_what_is_missing_or_of_another_version_is_named(
    versions: dict[str, str], message: str
) -> None:
    assert message in found(["top[cu13]==2"], versions)[0]
