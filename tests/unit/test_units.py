"""The unit's text: golden, deterministic, and what is refused. Behaviour is in lab_tests."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from sparkwright.errors import SparkwrightError
from sparkwright.unit_sections import MARKER
from sparkwright.units import render_unit
from tests.unit.service_case import GOLDEN, ROOT, golden_service


def test_golden() -> None:
    """A wanted change: `python -m tests.unit.golden`, then read the difference."""
    assert render_unit(golden_service()) == GOLDEN.read_text()
    assert GOLDEN.read_text().startswith(MARKER)


def test_another_process_gives_the_same() -> None:
    code = (
        "from tests.unit.service_case import golden_service as s\n"
        "from sparkwright.units import render_unit as r\nprint(r(s()), end='')"
    )
    for seed in ("1", "2"):
        out = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
        ).stdout  # fmt: skip
        assert out == GOLDEN.read_text()


def test_order_of_env_and_conflicts_does_not_matter() -> None:
    service = golden_service()
    shuffled = replace(
        service,
        env=dict(reversed(list(service.env.items()))),
        conflicts=("llm-b", "llm-a"),
    )
    assert render_unit(shuffled) == render_unit(replace(service, conflicts=("llm-a", "llm-b")))


def lines(**changes: Any) -> list[str]:
    return render_unit(replace(golden_service(), **changes)).splitlines()


def test_start_limits_are_in_the_unit_section() -> None:
    """In [Service] systemd ignores them (eugr/spark-vllm-docker#257)."""
    text = lines()
    assert text.index("StartLimitBurst=3") < text.index("[Service]")
    assert text.index("StartLimitIntervalSec=1h") < text.index("[Service]")


def test_conflicts_come_with_an_order() -> None:
    text = lines(conflicts=("llm-b", "llm-a"))
    assert "Conflicts=llm-a.service llm-b.service" in text
    after = next(line for line in text if line.startswith("After="))
    assert after.endswith("ollama.service llm-a.service llm-b.service")
    assert not [line for line in lines(conflicts=()) if line.startswith("Conflicts=")]


def test_devices_are_data() -> None:
    text = lines(devices=())
    assert "DevicePolicy=closed" in text
    assert not [line for line in text if line.startswith("DeviceAllow=")]
    assert "DeviceAllow=char-nvidia-uvm rw" in lines(devices=("char-nvidia-uvm",))


@pytest.mark.parametrize(
    ("listen", "probed", "waits"),
    [
        ("127.0.0.1", "127.0.0.1", False),
        ("0.0.0.0", "127.0.0.1", False),
        ("::", "::1", False),
        ("192.168.1.11", "192.168.1.11", True),
    ],
)
def test_listen_decides_probe_and_network(listen: str, probed: str, waits: bool) -> None:
    text = lines(listen=listen)
    assert f"    --host {probed} \\" in text
    assert ("Wants=network-online.target" in text) is waits


def test_caller_may_override_home_but_not_the_digest() -> None:
    assert 'Environment="HOME=/srv/h"' in lines(env={"HOME": "/srv/h"})
    assert 'Environment="SPARKWRIGHT_DIGEST="' in lines(digest="")
    with pytest.raises(SparkwrightError, match="env sets SPARKWRIGHT_DIGEST"):
        lines(env={"SPARKWRIGHT_DIGEST": "x"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "llm x"}, "'llm x' is not a unit name"),
        ({"name": "llm-x.service"}, "'llm-x.service' is not a unit name"),
        ({"conflicts": ("llm-a b",)}, "'llm-a b' is not a unit name"),
        ({"conflicts": ("llm-gpt-oss-120b-llamacpp",)}, "it excludes itself"),
        ({"user": "a b"}, "'a b' is not a user or group name"),
        ({"groups": ("%i",)}, "'%i' is not a user or group name"),
        ({"port": 80}, "port 80 needs privileges"),
        ({"devices": ("nvidia0",)}, "'nvidia0' is not a device"),
        ({"devices": ("/dev/a b",)}, "'/dev/a b' is not a device"),
        ({"weights_dir": "srv/w"}, "'srv/w' is not a plain absolute path"),
        ({"weights_dir": "/srv/a b"}, "'/srv/a b' is not a plain absolute path"),
        ({"weights_dir": "/srv/../w"}, "'/srv/../w' is not a plain absolute path"),
        ({"cache_dir": "/srv/%h"}, "'/srv/%h' is not a plain absolute path"),
        ({"weights_dir": "/home/u/w"}, "/home/u/w is hidden from services"),
        ({"weights_dir": "/tmp"}, "/tmp is hidden from services"),
        (
            {"argv": ("/root/llama-server",), "api_key_file": None},
            "/root/llama-server is hidden from services",
        ),
        ({"argv": ("llama-server",), "api_key_file": None}, "is not an absolute path"),
        ({"argv": (), "api_key_file": None}, "it is empty"),
        ({"api_key_file": "/etc/k"}, "/etc/k is not in its command"),
        ({"description": "a\nb"}, "one visible line"),
        ({"env": {"A-B": "x"}}, "takes letters, digits"),
    ],
)
def test_what_a_unit_cannot_carry_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SparkwrightError, match=said.replace("(", r"\(")):
        lines(**changes)


def test_all_problems_at_once() -> None:
    with pytest.raises(SparkwrightError) as error:
        lines(port=1, user="", weights_dir="/root/w", devices=("x",))
    assert len(str(error.value).splitlines()) == 4
