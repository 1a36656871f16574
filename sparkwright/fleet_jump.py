"""Jump hosts, through `ssh -W`: OpenSSH checks the hop's key as strictly as ours is checked.

pyinfra's own ProxyJump neither takes our known_hosts for the hop nor fails on an unknown key: it
asks on stdin (pyinfra 3.10.0, connectors/sshuserclient/client.py).
"""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path

import paramiko

from sparkwright.fleet_ssh import Ssh, jump_problem


def proxy_command(ssh: Ssh) -> str:
    """The ProxyCommand for a spark behind ssh.jump; all paths absolute.

    %h and %p stay for the reader of the configuration to fill in.
    """
    strict = "yes" if ssh.host_keys == "strict" else ssh.host_keys
    words = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
    # Half a minute of silence and the machine counts as lost, as without a jump (ssh_transport.py).
    words += ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=2"]
    words += ["-o", f"StrictHostKeyChecking={strict}"]
    # The quotes inside are for ssh itself, which splits this option at spaces.
    words += ["-o", f'UserKnownHostsFile="{ssh.known_hosts}"']
    if ssh.config:
        words += ["-F", ssh.config]
    if ssh.key:
        words += ["-i", ssh.key]
    hop, port = _split_port(ssh.jump or "")
    if port:
        words += ["-p", port]
    return " ".join([shlex.join(words), "-W", "[%h]:%p", shlex.quote(hop)])


def ssh_config(ssh: Ssh) -> str:
    """Text of the ssh configuration of one spark behind a jump host."""
    lines = [
        "# Written by sparkwright from the fleet file, on every run; changes here are lost.",
        "Host *",
        f"  Port {ssh.port}",
        f"  ProxyCommand {proxy_command(ssh)}",
    ]
    user_config = Path(ssh.config) if ssh.config else Path("~/.ssh/config").expanduser()
    if user_config.is_file():
        # After our block: the first value of an option wins.
        lines.append(f"Include {user_config}")
    return "\n".join(lines) + "\n"


def write_ssh_config(fleet: Path, name: str, ssh: Ssh) -> Path:
    """Write the configuration for one spark, readable by the user only, and say where.

    + fleet: path of the fleet file; two fleets may both have a spark of this name
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    fleet_id = hashlib.sha256(os.fsencode(fleet)).hexdigest()[:8]
    directory = cache / "sparkwright" / "ssh"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"{fleet_id}-{name}.conf"
    partial = path.with_suffix(f".{os.getpid()}")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600, exist_ok=False)
    partial.write_text(ssh_config(ssh), encoding="utf-8")
    partial.replace(path)
    return path


def configured_jump(ssh: Ssh, address: str) -> str | None:
    """The one-hop ProxyJump that the user's ssh configuration has for an address, or None."""
    path = Path(ssh.config) if ssh.config else Path("~/.ssh/config").expanduser()
    if not path.is_file():
        return None
    try:
        config = paramiko.SSHConfig.from_path(str(path))
        options = config.lookup(address)
    except (OSError, ValueError, paramiko.SSHException):
        return None  # pyinfra reads the same file and reports what it cannot read
    jump = options.get("proxyjump")
    if not jump or "proxycommand" in options or jump_problem(jump) or jump == "none":
        return None
    return str(jump)


def _split_port(jump: str) -> tuple[str, str]:
    head, _, tail = jump.rpartition(":")
    host, port = (head, tail) if head and tail.isdigit() else (jump, "")
    user, at, host = host.rpartition("@")
    return user + at + host.strip("[]"), port
