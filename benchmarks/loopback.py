"""The push beside rsync on this computer alone, through an sshd of its own on 127.0.0.1.

python -m benchmarks.loopback DIRECTORY     the tree and what arrives lie below it

For computers with more cores than both ends of a lab can fill: a push has several connections and
a hash at the far end, so with two cores for everything the cores are the bound, and on two real
machines each end has its own. Needs root, sshd and rsync; nothing of it stays.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection, socket
from tempfile import TemporaryDirectory

from benchmarks import measure, push
from tests.lab import keys as ssh_keys
from tests.lab.host import LabError, run

SSHD = "/usr/sbin/sshd"
READY_S = 10.0


class Here:
    """This computer as a machine of the benchmark."""

    def __init__(self, folder: Path) -> None:
        self.groups: tuple[Path, ...] = ()
        self.place, self.keys = folder / "far", ssh_keys.create(folder / "keys")
        with socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.host_key = self.keys.host_key("here", f"[127.0.0.1]:{self.port}")

    def data(self) -> dict[str, object]:
        """What ssh is told, as a converge tells it."""
        return {
            "ssh_hostname": "127.0.0.1",
            "ssh_port": self.port,
            "ssh_user": "root",
            "ssh_key": str(self.keys.user),
            "ssh_known_hosts_file": str(self.keys.known_hosts),
        }

    def ssh(self, command: str) -> None:
        """Run something there, which is here."""
        run("sh", "-c", command)

    @contextmanager
    def up(self) -> Iterator[None]:
        """An sshd that takes the benchmark's key alone."""
        allowed = self.keys.folder / "authorized_keys"
        allowed.write_text(self.keys.authorized())
        config = self.keys.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.host_key}\n"
            f"AuthorizedKeysFile {allowed}\nPasswordAuthentication no\nStrictModes no\n"
            "PermitRootLogin prohibit-password\nPidFile none\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE)
        try:
            self._wait(server)
            yield
        finally:
            server.terminate()
            server.wait()

    def _wait(self, server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_S
        while server.poll() is None and time.monotonic() < deadline:
            try:
                return create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
        server.terminate()
        raise LabError(f"{SSHD} did not start: {server.communicate()[1].decode()}")


def main() -> int:
    """Measure and print."""
    with TemporaryDirectory(dir=sys.argv[1]) as folder:
        here = Here(Path(folder))
        with here.up():
            found = push.figures_of(
                push.Push(here, here.data(), Path(folder), here.place), push.say
            )
    print(f"{measure.machine()}, load {measure.load()}")
    print("\n".join(map(str, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
