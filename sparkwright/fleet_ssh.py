"""How to reach a spark: the ssh and sudo sections of sparks.yaml, and checks of addresses."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from sparkwright.yaml_reader import Reader, Verdict, between, not_blank, one_of

_USER: Final = r"[A-Za-z_][A-Za-z0-9._-]*"
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"  # RFC 1123, section 2.1


@dataclass(frozen=True)
class Ssh:
    """How to log in.

    + user: None leaves it to the ssh config, then to the local user's name
    + host_keys: "strict" or "accept-new"; there is no way to turn checking off
    + jump: [user@]host[:port] of one hop, or None
    """

    user: str | None = None
    port: int = 22
    key: str | None = None
    config: str | None = None
    known_hosts: str = "~/.ssh/known_hosts"
    host_keys: str = "strict"
    jump: str | None = None


BUILTIN: Final = Ssh()


def read_ssh(part: Reader, base: Ssh) -> Ssh:
    """The ssh section over what defaults say.

    + base: values for the keys that the section leaves out
    """
    host_keys = one_of("strict", "accept-new", because="host keys are always checked")
    jump = part.take("jump", str, base.jump, check=jump_problem)
    ssh = Ssh(
        user=part.take("user", str, base.user, check=user_problem),
        port=part.take("port", int, base.port, check=between(1, 65535)),
        key=part.take("key", str, base.key, check=path_problem),
        config=part.take("config", str, base.config, check=path_problem),
        known_hosts=part.take("known_hosts", str, base.known_hosts, check=path_problem),
        host_keys=part.take("host_keys", str, base.host_keys, check=host_keys),
        jump=None if jump == "none" else jump,
    )
    part.finish(
        {
            "password": "sparkwright logs in with keys; see: ssh-copy-id",
            "hostname": "write address under the spark instead",
            "proxyjump": "write jump: user@host",
        }
    )
    return ssh


def read_sudo(part: Reader, base: str | None) -> str | None:
    """The name of the environment variable with the sudo password; None: passwordless sudo."""
    name = part.take("password_env", str, base, check=variable_problem)
    part.finish({"password": "no secrets in this file; write password_env: NAME_OF_A_VARIABLE"})
    return name


def address_problem(address: str) -> Verdict:
    """Why this is neither an IP address nor a host name, or None."""
    if _is_ip(address):
        return None
    if "@" in address:
        return f'"{address}" holds a user name', "write it as ssh: {user: ...}"
    if re.fullmatch(r"[^:]+:[0-9]+", address):
        return f'"{address}" holds a port', "write it as ssh: {port: ...}"
    if re.fullmatch(r"[0-9.]+", address):
        return f'"{address}" is not an IP address', "write four numbers from 0 to 255"
    if not _is_host(address):
        what = f'"{address}" is not a host name or IP address'
        return what, "use letters, digits, dots and dashes"
    return None


def normal_address(address: str) -> str:
    """One spelling per address: host names in lower case without the last dot, short IPv6."""
    if _is_ip(address):
        return str(ipaddress.ip_address(address))
    return address.lower().removesuffix(".")


def jump_problem(jump: str) -> Verdict:
    """Why this is not one hop, or None; "none" takes back what defaults say."""
    if "," in jump:
        return "must be one hop", "for more, put ProxyCommand into a file and name it: config"
    found = re.fullmatch(rf"(?:{_USER}@)?(\[[^\]]+\]|[^:@\[\]]+)(?::([0-9]{{1,5}}))?", jump)
    host = found[1].strip("[]") if found else ""
    if not found or not (_is_ip(host) or _is_host(host)):
        return f'must be user@host:port, not "{jump}"', "user and port may be left out"
    if found[2] and not 1 <= int(found[2]) <= 65535:
        return f"has port {found[2]}", "ports are 1 to 65535"
    return None


def user_problem(user: str) -> Verdict:
    """Why this cannot be a user's name, or None."""
    if re.fullmatch(_USER, user):
        return None
    return f'"{user}" is not a user name', "use letters, digits, dot, dash and _"


def path_problem(path: str) -> Verdict:
    """Why this path cannot go into an ssh configuration, or None."""
    if re.search(r"[%\"'\\]", path):
        return f"{path} holds a quote, backslash or percent sign", "ssh cannot take it; rename it"
    return not_blank(path)


def variable_problem(name: str) -> Verdict:
    """Why this cannot name an environment variable, or None. The text is not repeated: people
    write the password itself here."""
    if re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
        return None
    what = "must be the NAME of an environment variable (A-Z, 0-9, _), never the password"
    return what, "write password_env: SPARK_SUDO_PASSWORD"


def listen_problem(listen: str) -> Verdict:
    """Why a server cannot listen there, or None."""
    if listen == "localhost" or _is_ip(listen):
        return None
    what = f'must be an IP address of the spark, not "{listen}"'
    return what, "127.0.0.1 for itself alone, 0.0.0.0 for every network"


def is_loopback(listen: str) -> bool:
    """Whether only the machine itself can reach the address."""
    return listen == "localhost" or (_is_ip(listen) and ipaddress.ip_address(listen).is_loopback)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_host(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    if len(text) > 253 or text.replace(".", "").isdigit():
        return False
    return all(re.fullmatch(_LABEL, label) for label in labels)
