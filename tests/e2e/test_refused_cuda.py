"""The CUDA task on a machine without a toolkit: what it refuses, and what stays as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e import refusing
from tests.e2e.refusing import Bench, Fault, serving
from tests.lab.lab import start_lab

pytestmark = pytest.mark.lab

CUDA = Fault(settings={"cuda_required": True})
INSTALLED = "dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n'"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with start_lab(machines=1) as lab:
        yield Bench(lab, tmp_path_factory.mktemp("cuda"))


def repository(**values: object) -> Fault:
    return Fault(lock=lambda lock: lock["artifacts"]["cuda-repo"].update(values))


def test_a_key_with_another_fingerprint_is_not_installed(bench: Bench) -> None:
    other = "EB693B3035CD5710E231E123A4B469963BF863CC"
    done = refusing.run(bench.fleet(CUDA, serving(), repository(fingerprint=other)))
    real = bench.lab.prepared.cuda.fingerprint
    assert (
        f"[spark-1] /run/sparkwright/cuda-keyring.deb: its keys are ['{real}'], not {other}; the "
        "repository's key was replaced, compare the lock with NVIDIA's page"
    ) in done.stderr
    listing = f"ls {KEYRING} /etc/apt/sources.list.d /etc/apt/preferences.d"
    assert "cuda" not in bench.one.ssh(listing, check=False).stdout
    assert " cuda-" not in f" {bench.one.ssh(INSTALLED).stdout}"


def test_a_repository_that_would_install_a_driver_is_refused(bench: Bench) -> None:
    before = bench.one.ssh(INSTALLED).stdout
    bad = repository(url=f"{bench.lab.upstream.url}/apt-cuda-bad/")
    done = refusing.run(bench.fleet(CUDA, serving(), bad))
    assert (
        "[spark-1] apt: refused, nothing was installed: cuda-nvcc-13-0 wants "
        "nvidia-driver-580-open; sparkwright never changes driver, kernel, firmware or container "
        "toolkit"
    ) in done.stderr, done.stderr
    assert bench.one.ssh(INSTALLED).stdout == before


def test_a_repository_without_the_pinned_version_is_refused(bench: Bench) -> None:
    before = bench.one.ssh(INSTALLED).stdout
    newer = repository(packages={"cuda-nvcc-13-0": "13.0.99-1"})
    done = refusing.run(bench.fleet(CUDA, serving(), newer))
    assert "Version '13.0.99-1' for 'cuda-nvcc-13-0' was not found" in done.stderr
    assert bench.one.ssh(INSTALLED).stdout == before
