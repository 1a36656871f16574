"""Operation on the CUDA toolkit."""

from __future__ import annotations

from pyinfra import host
from pyinfra.api import operation

from sparkwright import cuda, report
from sparkwright.artifacts import Artifact
from sparkwright.facts import ask
from sparkwright.operations import Commands, as_pyinfra, guarded
from sparkwright.site import need


@operation()
@guarded
def toolkit(
    minimum: str, repository: Artifact, keyring: Artifact, only: str | None = None
) -> Commands:
    """
    Install the minimal CUDA package set when no nvcc of at least *minimum* is found; where we
    did that once, keep source, pin, key and packages as they were made.

    + minimum: version, like 13.0
    + repository: apt repository with fingerprint and package versions
    + keyring: the deb that carries the repository's key
    + only: a sources file that has the packages, instead of that repository
    """

    states = ask(host, cuda.probes(repository.packages or {}))
    if cuda.satisfied(states[0], minimum) and not cuda.ours(states):
        host.noop("the toolkit is new enough")
        return
    wanted = cuda.Repository(
        url=need(repository.url),
        fingerprint=need(repository.fingerprint),
        keyring_url=need(keyring.url),
        keyring_sha256=need(keyring.sha256),
        packages=need(repository.packages),
        only=only,
    )
    plan = cuda.plan(wanted, minimum, states)
    if not plan.drift:
        host.noop("the toolkit is as we installed it")
        return
    report.drift(host, list(plan.drift))
    yield from map(as_pyinfra, plan.commands)
