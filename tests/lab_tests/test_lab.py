"""The lab itself: what every other lab test takes for granted."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sparkwright.fleet import load_fleet
from tests.lab import Lab, LabError, Machine, start_lab
from tests.lab.__main__ import main
from tests.lab.fleetfile import SETTINGS
from tests.lab.host import PROJECT, run
from tests.lab.hubrepo import Repo
from tests.lab.records import RECORDS, Process, load_all, start_time
from tests.lab.runs import open_run


def leftovers(tag: str) -> list[str]:
    """Everything on this host that carries a lab's tag."""
    links = run("ip", "-oneline", "link").stdout
    names = run("ip", "netns").stdout
    mounts = Path("/proc/self/mountinfo").read_text()
    found = [line for text in (links, names, mounts) for line in text.splitlines() if tag in line]
    return found + [str(path) for path in Path("/sys/fs/cgroup").rglob(f"*{tag}*")]


def test_machine_is_a_machine(machine: Machine) -> None:
    assert machine.ssh("uname -n").stdout.strip() == machine.name
    assert machine.ssh("cat /proc/1/comm").stdout.strip() == "systemd"
    assert machine.ssh("systemctl is-system-running").stdout.strip() == "running"
    assert machine.failed_units == []
    assert machine.ssh("sudo id -u").stdout.strip() == "0"


def test_sudo_with_password(machine: Machine) -> None:
    refused = machine.ssh("sudo -n true", user="sparkpw", check=False)
    assert refused.returncode != 0
    given = machine.ssh("sudo -S id -u", user="sparkpw", input="lab-password\n")
    assert given.stdout.strip() == "0"


def test_no_way_outside(machine: Machine) -> None:
    """The documentation address of RFC 5737 stands for the internet."""
    assert "default" not in machine.ssh("ip route; ip -6 route").stdout
    tried = machine.ssh("curl --silent --max-time 3 http://192.0.2.1/", check=False)
    assert tried.returncode == 7  # could not connect: no route


def test_host_keys_are_checked(machine: Machine, tmp_path: Path) -> None:
    empty = tmp_path / "known_hosts"
    empty.touch()
    known = f"UserKnownHostsFile={machine.setting.keys.known_hosts}"
    argv = [word.replace(known, f"UserKnownHostsFile={empty}") for word in machine.ssh_argv()]
    refused = subprocess.run([*argv, "true"], capture_output=True, text=True, check=False)
    assert refused.returncode == 255
    assert "Host key verification failed" in refused.stderr


def test_power(machine: Machine) -> None:
    machine.ssh("echo kept | sudo tee /srv/note")
    before = machine.ssh("cat /proc/sys/kernel/random/boot_id; cat /etc/machine-id").stdout
    machine.power_off()
    assert machine.ssh("true", check=False).returncode == 255
    machine.boot()
    machine.kill()
    assert machine.process is None
    assert (machine.root / "srv/note").read_text() == "kept\n"
    machine.boot()
    assert machine.ssh("cat /srv/note").stdout == "kept\n"
    assert machine.ssh("cat /etc/machine-id").stdout in before
    machine.reset()
    assert machine.ssh("ls /srv").stdout == ""


def test_cable(machine: Machine) -> None:
    machine.link_down()
    assert machine.ssh("true", check=False).returncode == 255
    machine.link_up()
    machine.ssh("true")


def test_kernel_settings_stay_on_the_machine(machine: Machine) -> None:
    place = Path("/proc/sys/vm/swappiness")
    before = place.read_text()
    wanted = str(int(before) + 1)
    machine.ssh(f"sudo sysctl --write vm.swappiness={wanted}")
    assert machine.ssh("cat /proc/sys/vm/swappiness").stdout.strip() == wanted
    assert place.read_text() == before


def test_signed_package(machine: Machine) -> None:
    machine.ssh("sudo apt-get update && sudo apt-get install --yes pkg-config")
    assert machine.ssh("pkg-config --version").stdout.strip()
    machine.ssh("sudo rm /usr/share/keyrings/sparkwright-lab.gpg")
    refused = machine.ssh("sudo apt-get update 2>&1; true").stdout
    assert "NO_PUBKEY" in refused


def test_stand_in_toolkit(machine: Machine, lab: Lab) -> None:
    deb = lab.prepared.cuda.folder / next(
        path.name for path in lab.prepared.cuda.folder.glob("cuda-nvcc-*.deb")
    )
    (machine.root / "root/nvcc.deb").write_bytes(deb.read_bytes())
    machine.ssh("sudo dpkg --force-depends --install /root/nvcc.deb")
    nvcc = "/usr/local/cuda-13.0/bin/nvcc"
    assert "release 13.0, V13.0.88" in machine.ssh(f"{nvcc} --version").stdout
    tried = machine.ssh(f"{nvcc} -c x.cu", check=False)
    assert (tried.returncode, "stand-in" in tried.stderr) == (1, True)


def test_hub_client_downloads(lab: Lab, tmp_path: Path, machine: Machine) -> None:
    """The real client against the lab's hub, from the host, which reaches the bridge as well."""
    code = (
        "import sys, huggingface_hub as hub; hub.snapshot_download('sparkwright-lab/'"
        " 'tiny-safetensors', local_dir=sys.argv[1], ignore_patterns=['original/*', 'metal/*'])"
    )
    env = {"HF_ENDPOINT": lab.upstream.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path)}
    run(sys.executable, "-c", code, tmp_path / "x", env=env)
    repo = Repo("t", lab.prepared.hub / "sparkwright-lab/tiny-safetensors")
    kept = [file for file in repo.files() if not file.path.startswith(("original/", "metal/"))]
    assert len(kept) == 7
    for file in kept:
        assert (tmp_path / "x" / file.path).stat().st_size == file.size
    assert lab.upstream.sent("*/tiny-safetensors/resolve/*/original/*") == 0
    assert lab.upstream.sent("*.safetensors") == 9_000_000


def fetch(machine: Machine, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    return machine.ssh(f"curl --silent --show-error {' '.join(options)} {url}", check=False)


def test_upstream_misbehaves(lab: Lab, machine: Machine) -> None:
    path = "/sparkwright-lab/tiny-llama-GGUF/resolve/main/tiny-llama.gguf"
    url = lab.upstream.url + path
    lab.upstream.set(path, cut_after=1000, once=True)
    cut = fetch(machine, url, "-o /tmp/part")
    assert cut.returncode == 18  # a partial file
    assert fetch(machine, url, "-o /tmp/part --continue-at -").returncode == 0
    good = lab.prepared.hub / "sparkwright-lab/tiny-llama-GGUF/tiny-llama.gguf"
    digest = machine.ssh("sha256sum </tmp/part").stdout.split()[0]
    assert digest == hashlib.sha256(good.read_bytes()).hexdigest()
    ends = [entry for entry in lab.upstream.access() if entry["path"] == path][-2:]
    assert [(end["status"], end["bytes"]) for end in ends] == [
        (200, 1000),
        (206, good.stat().st_size - 1000),
    ]
    assert ends[1]["range"] == "bytes=1000-"
    lab.upstream.clear()
    lab.upstream.set(path, stall=True)
    assert fetch(machine, url, "-o /dev/null --max-time 2").returncode == 28  # timed out
    lab.upstream.clear()
    lab.upstream.set(path, html_login=True)
    assert "Sign in" in fetch(machine, url).stdout
    lab.upstream.clear()
    lab.upstream.set("/vocab/*", status=503)
    vocab = f"{lab.upstream.url}/vocab/o200k_base.tiktoken"
    assert fetch(machine, vocab, "-o /dev/null --write-out %{http_code}").stdout == "503"
    lab.upstream.clear()
    assert fetch(machine, vocab, "-o /dev/null --write-out %{http_code}").stdout == "200"


def test_archive_carries_its_commit(lab: Lab) -> None:
    llama = lab.prepared.llama
    with tarfile.open(llama.archive) as archive:
        assert archive.pax_headers["comment"] == llama.commit
        first = archive.next()
        assert first is not None
        assert first.name == f"llama.cpp-{llama.commit}"


def test_fleet_file_loads(lab: Lab, machine: Machine, tmp_path: Path) -> None:
    from group_data import all as defaults  # type: ignore[import-not-found, unused-ignore]

    serve = {machine.name: ["tiny-gpt-oss-llamacpp", "tiny-llama-llamacpp"]}
    path = lab.write_fleet(tmp_path / "sparks.yaml", serve, {"llama_cpp_build_jobs": 1})
    fleet = load_fleet(path, {k: v for k, v in vars(defaults).items() if not k.startswith("_")})
    spark = next(spark for spark in fleet.sparks if spark.name == machine.name)
    assert [served.recipe for served in spark.serve] == serve[machine.name]
    assert spark.settings == {**SETTINGS, "llama_cpp_build_jobs": 1}


def test_two_labs_side_by_side(lab: Lab, machine: Machine) -> None:
    with start_lab(1) as other:
        assert other.record.subnet != lab.record.subnet
        assert other.machines[0].ssh("uname -n").stdout == machine.ssh("uname -n").stdout
        tag = other.record.tag
        assert leftovers(tag)
        crossed = machine.ssh(f"curl --max-time 2 {other.upstream.url}/vocab/x", check=False)
        assert crossed.returncode == 7
    assert leftovers(tag) == []
    machine.ssh("true")


def test_error_takes_everything_down(lab: Lab) -> None:
    tags = []

    def fail() -> None:
        with start_lab(1) as other:
            tags.append(other.record.tag)
            raise RuntimeError("a test went wrong")

    with pytest.raises(RuntimeError, match="a test went wrong"):
        fail()
    assert leftovers(tags[0]) == []


CHILD = """
import sys, time
from tests.lab import start_lab
with start_lab(1, name=sys.argv[1]) as lab:
    print(lab.record.tag, flush=True)
    time.sleep(600)
"""


def start_child(name: str) -> tuple[subprocess.Popen[str], str]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, name],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    assert child.stdout is not None
    return child, child.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_takes_everything_down(lab: Lab, number: signal.Signals) -> None:
    child, tag = start_child(f"sig-{os.getpid()}")
    assert leftovers(tag)
    child.send_signal(number)
    assert child.wait(60) != 0
    assert leftovers(tag) == []


def test_killed_lab_is_cleaned_by_the_next(lab: Lab) -> None:
    name = f"kill-{os.getpid()}"
    child, tag = start_child(name)
    record = next(record for record in load_all() if record.run_id == name)
    child.kill()
    child.wait()
    assert leftovers(tag)
    with start_lab(0):
        assert leftovers(tag) == []
    assert not record.home.exists()
    assert not (RECORDS / f"{name}.json").exists()


def test_name_is_used_once(lab: Lab) -> None:
    with (
        pytest.raises(LabError, match="is up; take it down or choose another name"),
        start_lab(0, name=lab.run_id),
    ):
        pass


def test_reused_pid_is_not_ours() -> None:
    """A record of this very pid with another start time must not end this process."""
    assert Process(os.getpid(), start_time(os.getpid()) or "").alive
    stranger = Process(os.getpid(), "1")
    assert not stranger.alive
    stranger.end()


@pytest.mark.parametrize(
    ("platform", "user", "reason"),
    [
        ("darwin", 0, "darwin: the lab boots Linux machines; run it on a Linux computer or VM"),
        ("linux", 1000, "not root: mounts and network namespaces need it; run it with sudo"),
    ],
)
def test_says_what_is_missing(
    platform: str,
    user: int,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert main(["up", "--machines", "3"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        reason,
        "it would build a Debian root in the cache folder, make a bridge, and boot 3 machines"
        " on it",
    ]


def test_down_leaves_other_checkouts_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = f"other-{os.getpid()}"
    record = open_run(name, owned=False)
    monkeypatch.setattr("tests.lab.__main__.PROJECT", tmp_path)
    try:
        assert main(["down"]) == 0
        assert record.path.exists()
    finally:
        assert main(["down", "--name", name]) == 0
    assert not record.path.exists()
    assert leftovers(record.tag) == []


def test_up_and_down_by_hand(lab: Lab) -> None:
    name = f"hand-{os.getpid()}"
    command = [sys.executable, "-m", "tests.lab"]
    up = run(*command, "up", "--machines", "1", "--name", name, cwd=PROJECT)
    record = next(record for record in load_all() if record.run_id == name)
    try:
        ssh = next(line for line in up.stdout.splitlines() if line.startswith("ssh "))
        assert run("sh", "-c", f"{ssh} uname -n").stdout.strip() == "spark-1"
        assert f"SPARKS_FILE={record.home}/sparks.yaml" in up.stdout
        assert name in run(*command, "status", cwd=PROJECT).stdout
    finally:
        run(*command, "down", "--name", name, cwd=PROJECT)
    assert leftovers(record.tag) == []
