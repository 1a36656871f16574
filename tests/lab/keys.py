"""SSH keys of a run: one for the user, one host key per machine, so that checking stays strict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .host import run


@dataclass(frozen=True)
class Keys:
    """Where the run's keys are.

    + user: private key that every machine's users accept
    + known_hosts: file with the host key of each machine
    """

    folder: Path

    @property
    def user(self) -> Path:
        """The private key."""
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The known_hosts file of the run."""
        return self.folder / "known_hosts"

    def authorized(self) -> str:
        """The line for authorized_keys."""
        return self.user.with_suffix(".pub").read_text()

    def host_key(self, name: str, address: str) -> Path:
        """The host key of a machine, made at the first call and the same ever after."""
        path = self.folder / f"host-{name}"
        if not path.exists():
            _generate(path, name)
            public = path.with_suffix(".pub").read_text()
            with self.known_hosts.open("a") as handle:
                handle.write(f"{address} {public}")
        return path

    def ssh_argv(self, user: str, address: str) -> list[str]:
        """The ssh command that reaches a machine of the run; host keys are checked."""
        return [
            "ssh", "-F", "none", "-i", str(self.user),
            "-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "StrictHostKeyChecking=yes",
            "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "IdentitiesOnly=yes",
            f"{user}@{address}",
        ]  # fmt: skip


def _generate(path: Path, comment: str) -> None:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path)


def create(folder: Path) -> Keys:
    """Make the user's key of a new run."""
    folder.mkdir(mode=0o700)
    keys = Keys(folder)
    _generate(keys.user, "sparkwright-lab")
    keys.known_hosts.touch()
    return keys
