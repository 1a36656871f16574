"""A line with curl that asks a served recipe, ready to be pasted into bash or zsh. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sparkwright.fleet_ssh import is_loopback
from sparkwright.resources import quote
from sparkwright.site import Planned

QUESTION: Final = "Which model are you?"
KNOWN: Final = "~/.ssh/known_hosts"
TYPE: Final = "'Content-Type: application/json'"  # curl says form data otherwise
_EVERY: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def ask_line(item: Planned, data: Mapping[str, Any]) -> str:
    """
    How to ask it from the laptop; a server on loopback is asked by its own machine.

    + item: a recipe that runs
    + data: the machine's data, for its address and account

    The API key never stands in the line, nor in the argument of a program: curl reads it as a
    header from what the shell hands it, <(…).
    """
    target, options = _target(data)
    far = not is_loopback(item.listen)
    host = _host(item, data, far)
    if item.recipe.container is not None and item.recipe.container.serves == "web":
        page = f"http://{host}:{item.port}/"
        return page if far else f"ssh {options}-L {item.port}:{host}:{item.port} {target}"
    body = json.dumps({"model": item.recipe.served_name,
                       "messages": [{"role": "user", "content": QUESTION}]})  # fmt: skip
    words = f"curl -s http://{host}:{item.port}/v1/chat/completions -H {TYPE} -d {quote(body)}"
    read = f"sudo sed 's/^/Authorization: Bearer /' {data['etc_dir']}/api-key"
    keyed = item.api_key == "generate"
    if far:
        given = f" -H @<(ssh {options}{target} {_double(read)})" if keyed else ""
        return words + given
    piped = f"{read} | {words} -H @-" if keyed else words
    return f"ssh {options}{target} {_double(piped)}"


def _double(text: str) -> str:
    """In double quotes: easier to read than single ones, for there are some inside."""
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def _target(data: Mapping[str, Any]) -> tuple[str, str]:
    """Where ssh goes, and its options with a space behind them."""
    user, port, address = data.get("ssh_user"), data.get("ssh_port") or 22, _address(data)
    words = [f"-F {quote(data['ssh_config_file'])}"] if data.get("ssh_config_file") else []
    words += [f"-i {quote(data['ssh_key'])}"] if data.get("ssh_key") else []
    words += [f"-p {port}"] if port != 22 else []
    known = str(data.get("ssh_known_hosts_file") or KNOWN)
    if Path(known).expanduser() != Path(KNOWN).expanduser():
        words.append(f"-o UserKnownHostsFile={quote(known)}")
    target = f"{user}@{address}" if user else address
    return target, "".join(f"{word} " for word in words)


def _host(item: Planned, data: Mapping[str, Any], far: bool) -> str:
    own = _address(data) if item.listen in _EVERY and far else item.listen
    return f"[{own}]" if ":" in own else own


def _address(data: Mapping[str, Any]) -> str:
    """Of an inventory of somebody's own the address may be the name, which is not in the data."""
    return str(data.get("ssh_hostname") or "MACHINE")
