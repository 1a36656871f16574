"""Which wheels requirements mean on a machine, and the tags that fit it (A01 to A03)."""

from __future__ import annotations

import pytest

from sparkwright.bundle_wheels import index_pages, pins_of, rank_of
from sparkwright.errors import SparkwrightError
from sparkwright.needs_parts import WheelSet
from sparkwright.needs_target import Target

SPARK = Target("aarch64", "ubuntu 24.04", (3, 12), 39)
LAPTOP = Target("x86_64", "debian 12", (3, 11), 36)
H = "0" * 64


def pins(text: str, target: Target = SPARK) -> list[str]:
    return [pin.project for pin in pins_of(WheelSet("set", target.python, text, {}), target)]


@pytest.mark.parametrize(
    ("marker", "spark", "laptop"),
    [
        ("sys_platform == 'linux'", True, True),
        ("platform_machine == 'aarch64'", True, False),
        ("python_version >= '3.12'", True, False),
        ("python_full_version < '3.12'", False, True),
        ("sys_platform == 'darwin' or os_name == 'nt'", False, False),
        ("implementation_name == 'cpython' and platform_system == 'Linux'", True, True),
    ],
)
def test_markers_are_judged_for_the_machine(marker: str, spark: bool, laptop: bool) -> None:
    line = f"a==1 ; {marker} --hash=sha256:{H}\n"
    assert bool(pins(line)) is spark
    assert bool(pins(line, LAPTOP)) is laptop


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("a-1-py3-none-any.whl", True),
        ("a-1-cp312-cp312-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", True),
        ("a-1-cp38-abi3-manylinux_2_39_aarch64.whl", True),
        ("a-1-cp312-cp312-linux_aarch64.whl", True),  # a nightly's own tag; pip takes it there
        ("a-1-cp38-abi3-manylinux_2_40_aarch64.whl", False),
        ("a-1-cp313-abi3-manylinux_2_17_aarch64.whl", False),
        ("a-1-cp311-cp311-manylinux_2_17_aarch64.whl", False),
        ("a-1-cp312-cp312-manylinux_2_17_x86_64.whl", False),
        ("a-1-cp312-cp312-musllinux_1_2_aarch64.whl", False),
        ("a-1-cp312-cp312-macosx_11_0_arm64.whl", False),
        ("a-1.tar.gz", False),
    ],
)
def test_a_wheel_fits_a_spark_or_not(name: str, fits: bool) -> None:
    assert (rank_of(name, SPARK.tags((3, 12))) is not None) is fits


def test_the_nearest_glibc_wins_as_with_pip() -> None:
    tags = SPARK.tags((3, 12))
    names = ["a-1-py3-none-any.whl", "a-1-cp312-cp312-manylinux_2_17_aarch64.whl",
             "a-1-cp312-cp312-manylinux_2_28_aarch64.whl"]  # fmt: skip
    ranks = [rank_of(name, tags) for name in names]
    assert ranks == sorted(ranks, key=lambda rank: -(rank or 0))


def test_addresses_and_continued_lines_are_read() -> None:
    text = f"a==1 \\\n    --hash=sha256:{H} \\\n    --hash=sha256:{'1' * 64}\n" \
        f"b @ https://x.example/b-2%2Bcu130-py3-none-any.whl --hash=sha256:{H}\n"  # fmt: skip
    one, two = pins_of(WheelSet("set", (3, 12), text, {}), SPARK)
    assert (one.version, one.url, len(one.hashes)) == ("1", None, 2)
    assert two.url == "https://x.example/b-2%2Bcu130-py3-none-any.whl"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a==1\n", "artifacts/set: a has no sha256; make it again with hashes"),
        (f"a=>1 --hash=sha256:{H}\n", 'artifacts/set: cannot read "a=>1"'),
    ],
)
def test_requirements_that_prove_nothing_are_refused(text: str, what: str) -> None:
    with pytest.raises(SparkwrightError) as error:
        pins(text)
    assert str(error.value).startswith(what)


def test_index_pages_link_relatively_with_hashes() -> None:
    pages = index_pages([("A_b-1+cu130-py3-none-any.whl", H), ("c-1-py3-none-any.whl", H)])
    assert set(pages) == {"index.html", "a-b/index.html", "c/index.html"}
    assert (
        f'href="../../wheels/A_b-1%2Bcu130-py3-none-any.whl#sha256={H}"' in pages["a-b/index.html"]
    )
    assert '<a href="a-b/">a-b</a>' in pages["index.html"]
