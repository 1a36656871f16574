"""Operation on the CUDA toolkit."""

from __future__ import annotations

from pyinfra import host
from pyinfra.api import operation

from sparkwright import cuda, report
from sparkwright.artifacts import Artifact
from sparkwright.facts import ask
from sparkwright.llama_flags import nvcc_probe
from sparkwright.operations import Commands, as_pyinfra, guarded
from sparkwright.site import need


@operation()
@guarded
def toolkit(minimum: str, repository: Artifact, keyring: Artifact) -> Commands:
    """
    Install the minimal CUDA package set when no nvcc of at least *minimum* is found.

    + minimum: version, like 13.0
    + repository: apt repository with fingerprint and package versions
    + keyring: the deb that carries the repository's key
    """

    found = cuda.drift(ask(host, [nvcc_probe()]), minimum)
    if not found:
        host.noop("the toolkit is new enough")
        return
    report.drift(host, found)
    wanted = cuda.Repository(
        url=need(repository.url),
        fingerprint=need(repository.fingerprint),
        keyring_url=need(keyring.url),
        keyring_sha256=need(keyring.sha256),
        packages=need(repository.packages),
    )
    yield from map(as_pyinfra, [*cuda.install(wanted), cuda.proof(minimum, nvcc_probe())])
