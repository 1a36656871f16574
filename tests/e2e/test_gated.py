"""A gated repository: clear words without a token, and a token that is seen nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e import refusing, support
from tests.e2e.hub_case import SHARDS, Hub, in_background
from tests.e2e.refusing import Bench
from tests.lab.hubapi import ACCEPTED_TOKEN, OTHER_TOKEN
from tests.lab.lab import start_lab

pytestmark = pytest.mark.lab

PLACES = "/run /etc /srv /opt /var /tmp /root /home"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with start_lab(machines=1) as lab:
        yield Hub(Bench(lab, tmp_path_factory.mktemp("gated")))


@pytest.fixture(scope="module")
def name(hub: Hub) -> str:
    return hub.repository(gated=True)


GATED = (
    "the Hub answered {}: the repository is gated or the token lacks access; accept its terms at "
    "{} and give a token of that account"
)
BAD = (
    "the Hub answered 401: it does not accept the token, or there is no such repository; check "
    "the name and the token"
)


@pytest.mark.parametrize(
    ("token", "said"),
    [("", GATED.format(401, "{}")), (OTHER_TOKEN, GATED.format(403, "{}")), ("hf_nonsense42", BAD)],
    ids=["none", "without access", "unknown"],
)
def test_without_a_right_token_the_line_says_what_to_do(
    hub: Hub, name: str, token: str, said: str
) -> None:
    done = refusing.run(hub.fleet(name, gated=True), env={"HF_TOKEN": token})
    url = f"{hub.bench.lab.upstream.url}/sparkwright-lab/{name}"
    line = f"weights-sparkwright-lab-{name}: {url}: {said.format(url)}"
    assert line in done.stdout.splitlines(), done.stdout + done.stderr
    if token:
        assert token not in done.stdout + done.stderr


def found(hub: Hub, where: str) -> list[str]:
    """Files that hold the token; it travels by standard input, sudo logs command lines."""
    command = f"sudo grep -rlaF -f - {where} 2>/dev/null"
    return hub.machine.ssh(command, check=False, input=ACCEPTED_TOKEN).stdout.split()


def test_the_right_token_works_and_is_seen_nowhere(
    hub: Hub, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", ACCEPTED_TOKEN)
    hub.bench.lab.upstream.set(f"*/{name}/resolve/*/{SHARDS[1]}", rate=400_000)
    secret = f"/run/sparkwright/weights-sparkwright-lab-{name}/secret"
    with in_background(hub.fleet(name, gated=True)) as result:
        running = f"pgrep -f weights_child.py >/dev/null && sudo test -e {secret}"
        hub.wait_for(
            lambda: hub.machine.ssh(running, check=False).returncode == 0, "no transfer began"
        )
        # While it moves: in no command line, in no environment, in one file of the service user.
        during = found(hub, "/proc/[0-9]*/cmdline /proc/[0-9]*/environ")
        mode = hub.machine.ssh(f"sudo stat -c '%U %a' {secret}").stdout.split()
        files = found(hub, PLACES)
        text = result()
    assert during == []
    assert mode == ["llm", "600"]
    assert files == [secret]
    assert text.startswith("rc 0\n"), text
    assert hub.held(name) == list(SHARDS)
    assert found(hub, PLACES) == []
    journal = hub.machine.ssh("sudo journalctl --no-pager -o export").stdout
    assert "sparkwright" in journal
    for shown in (text, journal):
        assert ACCEPTED_TOKEN not in shown
    support.check(hub.fleet(name, gated=True))
