"""`sparkwright report`: what must not leave does not, and what helps stays."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkwright import cli_report, support_report
from sparkwright.errors import SparkwrightError
from sparkwright.status_ask import Answer
from sparkwright.support_report_redact import Redactor
from tests.unit.machine_case import program

agent: Any = program("status_report")

# What was planted, and what must be gone.
PLANTED = [
    ("Authorization: Bearer abcDEF123.x-y", "abcDEF123.x-y"),
    ("HF_TOKEN=hf_AbCdEfGhIjKlMnOp", "hf_AbCdEfGhIjKlMnOp"),
    ("see hf_AbCdEfGhIjKlMnOp there", "hf_AbCdEfGhIjKlMnOp"),
    ("--api-key s3cret-Value9", "s3cret-Value9"),
    ("Environment=VLLM_API_KEY=k-e-y-1234", "k-e-y-1234"),
    ('"password": "hunter22"', "hunter22"),
    ("sudo_password: 'hunter22'", "hunter22"),
    ("http://jan:geheim@proxy.lan:3128/", "jan:geheim"),
    ("sk-proj-abcdefghijklmnop", "sk-proj-abcdefghijklmnop"),
    ("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc_-", "eyJhbGciOiJIUzI1"),
    ("nvapi-abcdefghijklmnop", "nvapi-abcdefghijklmnop"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\nbnNz\n-----END OPENSSH PRIVATE KEY-----", "b3Bl"),
    ("-----BEGIN RSA PRIVATE KEY-----\ncutoff", "cutoff"),
    ("Serial Number : 1423225012345", "1423225012345"),
    ("GPU UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666", "0a1b2c3d"),
    ("machine-id 0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"),
    ("link/ether 4c:bb:47:00:11:22 brd", "4c:bb:47:00:11:22"),
    ("listening on 192.168.1.12:8080", "192.168.1.12"),
    ("inet6 fe80::4ebb:47ff:fe00:1122/64", "fe80::4ebb:47ff:fe00:1122"),
    ("2001:db8::1", "2001:db8::1"),
    ("::ffff:192.168.1.12", "192.168.1.12"),
    ("ssh jan.jansen@example.org", "jan.jansen@example.org"),
    ("/home/jan/models", "jan"),
    ("spark-7.lan answered", "spark-7.lan"),
    ("the password is Tr0ub4dor", "Tr0ub4dor"),
    # A harmless name before one that is none, or only letters of one.
    ("max_tokens password=hunter22", "hunter22"),
    ("n_tokens=api_key:hunter22", "hunter22"),
    ("climax_token=hunter22", "hunter22"),
    ("a@b.example.+joe@x.example", "joe"),
    ("uuid serial uuid: 1423225012345", "1423225012345"),
]
# What must stay as it is, for without it nobody can help.
HARMLESS = [
    "LISTEN 0 512 127.0.0.1:8080 0.0.0.0:*",
    "listening on [::1]:8080 and [::]:22",
    "2026-11-29T21:27:22+0000 systemd[1]: 0.00.020.954 I srv",
    "max_tokens: 1024, n_tokens = 42, bos_token_id=1",
    "TIKTOKEN_CACHE_DIR=/srv/sparkwright/tiktoken",
    "--api-key-file /etc/sparkwright/api-key",
    "driver 580.95.05, CUDA 13.0.88",
    "commit 0c1e57098bba43ac29e6e3b677cdceebdd22334f",
    "SPARKWRIGHT_DIGEST=8fdb7b2ad2a0",
    "std::chrono::seconds",
    "GET /health HTTP/1.1 200",
]


@pytest.mark.parametrize(("text", "secret"), PLANTED)
def test_what_must_not_leave(text: str, secret: str) -> None:
    redactor = Redactor(["Tr0ub4dor"], ["spark-7.lan"])
    cleaned = redactor.clean(f"before {text} after")
    assert secret not in cleaned
    assert cleaned.startswith("before ")
    assert sum(redactor.counts.values()) >= 1


@pytest.mark.parametrize("text", HARMLESS)
def test_what_helps_stays(text: str) -> None:
    assert Redactor().clean(text) == text


@given(st.text(alphabet=" \n\t:=,;\"'()[]{}<>ab1._-/", max_size=30), st.sampled_from(PLANTED),
       st.text(alphabet=" \n\t:=,;\"'()[]{}<>ab1._-/", max_size=30))  # fmt: skip
def test_wherever_it_stands(before: str, planted: tuple[str, str], after: str) -> None:
    text, secret = planted
    redactor = Redactor(["Tr0ub4dor"], ["spark-7.lan"])
    assert secret not in redactor.clean(f"{before} {text} {after}")


def test_the_same_thing_has_the_same_number() -> None:
    redactor = Redactor(addresses=["host-a"])
    text = redactor.clean("10.0.0.1 10.0.0.2 10.0.0.1")
    assert text == "<address-1> <address-2> <address-1>"
    assert redactor.clean("host-a, 10.0.0.2") == "<address-3>, <address-2>"
    assert redactor.counts["address"] == 5


def test_cleaning_twice_changes_nothing() -> None:
    redactor = Redactor(["Tr0ub4dor"])
    once = redactor.clean("\n".join(text for text, _ in PLANTED))
    assert redactor.clean(once) == once


# --- the program ---


def test_the_program_hides_keys_and_serials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, env, serial = tmp_path / "key", tmp_path / "key.env", tmp_path / "serial"
    key.write_text("k3y-of-the-machine\n")
    env.write_text("VLLM_API_KEY=other-k3y\n")
    serial.write_text("SN-998877\0")
    monkeypatch.setattr(agent, "SERIALS", (str(serial), str(tmp_path / "none")))
    monkeypatch.setattr(agent.os, "uname", lambda: type("U", (), {"nodename": "jans-spark"}))
    said = "k3y-of-the-machine other-k3y SN-998877 jans-spark"
    found = agent.collect(
        {
            "commands": {"a": ["printf", said], "none": ["/nonexistent"]},
            "files": {"b": str(tmp_path / "none"), "c": str(key)},
            "secrets": [str(key), str(env)],
            "limit": 1000,
        }
    )
    assert found["a"].splitlines()[1] == "<secret> <secret> <serial> <host>"
    assert "k3y" not in json.dumps(found)
    assert found["none"].startswith("cannot be run")
    assert found["b"].startswith("cannot be read")
    assert found["c"] == "<secret>\n"


def test_the_end_of_a_long_text_is_kept() -> None:
    found = agent.run(["printf", "%s", "a" * 50 + "end"], 10)
    assert found.endswith("aaaaaaaend")
    assert len(found.splitlines()[1]) == 10


# --- the tarball ---


def members(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        return {m.name: tar.extractfile(m).read().decode() for m in tar.getmembers()}  # type: ignore[union-attr]


def test_the_tarball(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.tar.gz"
    answers = [
        Answer("spark-1", {}, {"a.txt": "from 10.0.0.1, key topsecret"}),
        Answer("spark-2", {}, None, "no route to 10.0.0.2"),
    ]
    redactor = Redactor(["topsecret"])
    sizes = support_report.pack(path, support_report.texts(answers), redactor)
    found = members(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert found["sparkwright-report/spark-1/a.txt"] == "from <address-1>, key <secret>"
    assert found["sparkwright-report/spark-2/unreachable.txt"] == "no route to <address-2>\n"
    assert "secret: 1" in found["sparkwright-report/README.txt"]
    assert set(sizes) == {"spark-1/a.txt", "spark-2/unreachable.txt", "README.txt"}


def test_nothing_is_written_when_a_secret_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Redactor, "clean", lambda self, text: text)
    path = tmp_path / "r.tar.gz"
    with pytest.raises(SparkwrightError, match=r"still in a\.txt"):
        support_report.pack(path, {"a.txt": "topsecret"}, Redactor(["topsecret"]))
    assert not path.exists()


def test_secrets_of_the_laptop() -> None:
    env = {"HF_TOKEN": "a1b2", "SPARK_SUDO_PASSWORD": "c3d4", "PATH": "/bin", "X_API_KEY": ""}
    assert cli_report.named_secrets(env) == ["a1b2", "c3d4"]
    assert cli_report.logins(["nvidia", "jan"]) == ["jan"]
