"""`make test-bundle`: a real wheel set and real Debian packages for arm64, carried and proved.

Asks package registries, as pip and apt here are set up to: about 130 MB. The hub client's wheels
are for Python 3.12 on aarch64, as on a Spark; the packages are Debian's, for arm64, resolved from
nothing. llama.cpp's source and the vocabulary are stand-ins.

ARGS=--vllm: the whole wheelhouse of the profile `stock` as well, 4.3 GB; without the two FlashInfer
wheels that are on another index, which the project's lock does not resolve yet.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from sparkwright.artifacts import load_lock
from sparkwright.bundle_fill import Filling, Options
from sparkwright.bundle_inputs import Inputs, read_inputs
from sparkwright.bundle_key import NAME, have_key
from sparkwright.bundle_verify import verify
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.needs_parts import vllm_set
from sparkwright.paths import FILES, PROJECT
from tests.bundle.place import data_of, sha256
from tests.lab.sources import KEYRING, debian_lines

PROGRAM = str(Path(sys.executable).with_name("sparkwright"))
REQUIREMENTS = FILES / "opt/sparkwright/requirements/hub-client.txt"
# What a wheelhouse that was made on a laptop holds (cases of pydantic-core#1116).
WRONG = (("x86_64", "3.12", "manylinux_2_28_x86_64"), ("cp311", "3.11", "manylinux_2_28_aarch64"))
# The wheels are a Spark's; no registry of Ubuntu's is asked here, so the packages are Debian's.
RELEASE, SUITE = "ubuntu 24.04", "bookworm"


class Failed(Exception):
    """What was expected did not happen."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder over HTTP on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Not printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Site:
    """A fleet of one machine: a Spark with Debian's packages."""

    def __init__(self, top: Path, url: str) -> None:
        self.top, self.url = top, url
        self.fleet, self.bundle = top / "sparks.yaml", top / "bundle"
        shutil.copy(REQUIREMENTS, top)
        self._machine()
        settings = {"cuda_required": False, "os_releases": [RELEASE]}
        spark = {"address": "192.0.2.1", "serve": []}
        fleet = {"defaults": {"settings": settings}, "sparks": {"spark-1": spark}}
        self.fleet.write_text(yaml.safe_dump(fleet))
        self._lock()

    def _machine(self) -> None:
        """What a machine would tell: its sources, and a status without a single package."""
        texts = {
            "etc/apt/sources.list": "\n".join(debian_lines(SUITE)) + "\n",
            "var/lib/dpkg/status": "",
        }
        for name, text in texts.items():
            path = self.top / "machine" / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
        keys = self.top / "machine/usr/share/keyrings"
        keys.mkdir(parents=True)
        shutil.copy(KEYRING, keys)

    def _lock(self) -> None:
        def entry(name: str, kind: str, **more: object) -> dict[str, object]:
            data = data_of(name, 1_000_000)
            (self.top / "www").mkdir(exist_ok=True)
            (self.top / "www" / name).write_bytes(data)
            return {"kind": kind, "url": f"{self.url}/{name}", "size": len(data),
                    "sha256": sha256(data), **more}  # fmt: skip

        requirements = (self.top / REQUIREMENTS.name).read_bytes()
        lock = {
            "format": 1,
            "hub": self.url,
            "artifacts": {
                "llama.cpp-source": entry("b1.tar.gz", "archive", version="b1", commit="a" * 40,
                                          build_number=1),
                "tiktoken-o200k_base": entry("o200k_base.tiktoken", "file",
                                             plain_name="o200k_base.tiktoken",
                                             sha1_name="f" * 40),
                "hub-client": {"kind": "wheels", "requirements": REQUIREMENTS.name,
                               "sha256": sha256(requirements)},
            },
        }  # fmt: skip
        (self.top / "artifacts.lock.yaml").write_text(yaml.safe_dump(lock))

    def run(self, *words: str, expect: int = 0) -> str:
        """One command of ours; its output is shown, long ones by their end."""
        print(f"\n$ sparkwright {' '.join(words)}".replace(f"{self.top}/", ""), flush=True)
        argv = [PROGRAM, *words, "--fleet", str(self.fleet)]
        done = subprocess.run(
            argv, cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        told = (done.stdout + done.stderr).replace(f"{self.top}/", "")
        print("\n".join(told.splitlines()[-8:]), flush=True)
        if done.returncode != expect:
            raise Failed(f"exit {done.returncode}, expected {expect}")
        return told


def wrong_wheels(site: Site) -> list[Path]:
    """Real wheels that a Spark of this release cannot take."""
    found = []
    for name, python, platform in WRONG:
        folder = site.top / name
        words = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
        which = ["--python-version", python, "--platform", platform, "pyyaml==6.0.4"]
        subprocess.run([sys.executable, "-m", "pip", *words, *which], check=True)
        found += list(folder.glob("*.whl"))
    return found


def prove(site: Site) -> None:
    """Lock, bundle, verify; then wheels that do not belong there are named."""
    site.run("lock", "--debs", str(site.top / "machine"))
    site.run("lock", "--check")
    site.run("bundle", str(site.bundle))
    again = site.run("bundle", str(site.bundle))
    if "nothing changed" not in again:
        raise Failed("the second run changed something")
    site.run("bundle", "verify", str(site.bundle))
    foreign = wrong_wheels(site)
    for path in foreign:
        shutil.copy(path, site.bundle / "wheels")
    told = site.run("bundle", "verify", str(site.bundle), expect=1)
    missing = [path.name for path in foreign if f"wheels/{path.name}: is for" not in told]
    if missing:
        raise Failed(f"not named: {missing}")


def wheelhouse(site: Site) -> None:
    """The bundle with vLLM's real wheels for a Spark passes; then strangers are named."""
    inputs = read_inputs(site.fleet)
    lock, problems = load_lock(PROJECT / "artifacts.lock.yaml"), Problems()
    wheels = vllm_set(lock, "stock", problems)
    print("\nvllm-stock, without:", *problems, sep="\n  ", flush=True)
    if wheels is None:
        raise Failed(f"no wheel set: {list(problems)}")
    # Not closed: vllm itself asks for what is lacking.
    sets = (*inputs.needs.sets, replace(wheels, closed=False))
    needs = replace(inputs.needs, sets=sets)
    more, key = replace(inputs, needs=needs), site.top / NAME
    options = Options(lock_text=inputs.lock.path.read_bytes(), key=have_key(key))
    for path in wrong_wheels(site):
        (site.bundle / "wheels" / path.name).unlink()
    Filling(site.bundle, needs, inputs.debs, options).run()
    lines = verify(site.bundle, more, key, False, print)
    if lines:
        raise Failed("\n".join(lines))
    told = verify_with(site, more, key)
    print("\n".join(told), flush=True)


def verify_with(site: Site, inputs: Inputs, key: Path) -> list[str]:
    """What verify says with two wheels that do not fit beside the right ones."""
    foreign = wrong_wheels(site)
    for path in foreign:
        shutil.copy(path, site.bundle / "wheels")
    told = verify(site.bundle, inputs, key, True, print)
    missing = [p.name for p in foreign if not any(f"wheels/{p.name}: is for" in t for t in told)]
    if missing or len(told) != len(foreign):
        raise Failed(f"not named: {missing}; said: {told}")
    return told


def main() -> int:
    """Prove it, and say how it went."""
    vllm = "--vllm" in sys.argv[1:]
    with TemporaryDirectory() as place:
        top = Path(place)
        (top / "www").mkdir()
        try:
            with served(top / "www") as url:
                site = Site(top, url)
                prove(site)
                if vllm:
                    wheelhouse(site)
        except (Failed, SparkwrightError, subprocess.CalledProcessError) as error:
            print(f"make test-bundle: FAILED: {error}", file=sys.stderr)
            return 1
    print(f"\nmake test-bundle: {1 + vllm} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
