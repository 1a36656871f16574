"""What must hold on a machine after the run that mends: asked without the deploy's own code."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from tests.e2e import support
from tests.lab.machine import Machine

# Everything that an interrupted write, build or download could leave.
TEMPORARY = r"""
{
find /etc /opt/sparkwright /srv/sparkwright /run/sparkwright /var/lib/sparkwright \
  /usr/share/keyrings -xdev \( -name '.sparkwright.*' -o -name '*.partial' \
  -o -name '*.incomplete' -o -name '.current' -o -name '.*.tmp' \
  -o -path '/run/sparkwright/*/secret' -o -path '*sparkwright*/*.new' \
  -o -path '/srv/sparkwright/build/llama.cpp' \
  -o -path /etc/passwd.lock -o -path /etc/group.lock \)
find /tmp -maxdepth 1 -name 'pyinfra*'
find /opt/sparkwright/llama.cpp /opt/sparkwright/hub-client -mindepth 1 -maxdepth 1 -type d \
  ! -execdir test -e '{}/.stamp' ';' -print
systemctl list-units --all --plain --no-legend 'sparkwright-*'
dpkg --audit
systemctl --failed --plain --no-legend
} 2>&1
"""
STAMPS = r"""
for tool in llama.cpp hub-client; do
  d=/opt/sparkwright/$tool; name=$(readlink $d/current)
  [ "$(cat $d/$name/.stamp)" = "$name" ] || echo "$d/$name: its stamp is not its name"
done
/opt/sparkwright/llama.cpp/current/bin/llama-server --version >/dev/null 2>&1 || echo "no server"
cd /srv/sparkwright/weights/*/*/*/ && sha256sum --quiet -c SHA256SUMS 2>&1
ls MANIFEST.json >/dev/null || echo "no manifest"
"""
JOURNAL = (
    "journalctl -o json --no-pager --output-fields=UNIT,MESSAGE_ID,_BOOT_ID "
    "_PID=1 + _SYSTEMD_UNIT=init.scope"
)
# systemd's own catalogue (sd-messages.h): started; succeeded, failed, stopped.
STARTED = "39f53479d3a045ac8e11786248231fbf"
ENDED = {
    "7ad2d189f7e94e70a38c781354912448",
    "d9b373ed55a64feb8242e02dbe79a49c",
    "9d1aaa27d60140bd96365438aad20286",
}


def wrong(machine: Machine, fleet: Path) -> list[str]:
    """Everything that is not as it must be, a phrase each."""
    found = [f"left over: {line}" for line in lines(machine, TEMPORARY)]
    found += lines(machine, STAMPS)
    found += beside(machine)
    answer = support.ask(machine, 8080, "tiny-gpt-oss").strip()
    if answer != "SPARK":
        found.append(f"the server answers {answer!r}")
    code, report = support.check(fleet, "--data", "verify=deep")
    if code != 0:
        found.append(f"check ends with {code}: {report['drift']} {report['problems']}")
    return found


def lines(machine: Machine, script: str) -> list[str]:
    """What a script prints as root; no line is the good answer."""
    done = machine.ssh("sudo sh", input=script, check=False, timeout=60)
    return [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]


def beside(machine: Machine) -> list[str]:
    """Work of ours that was started while other work of the same label was still running."""
    text = machine.ssh(f"sudo {JOURNAL}", timeout=60).stdout
    return overlaps([json.loads(line) for line in text.splitlines()])


def overlaps(rows: list[dict[str, str]]) -> list[str]:
    """Phrases from journal entries in order; a power cut ends everything of its boot."""
    running: dict[tuple[str, str], set[str]] = defaultdict(set)
    found = []
    for row in rows:
        unit, message = row.get("UNIT", ""), row.get("MESSAGE_ID", "")
        if not unit.startswith("sparkwright-"):
            continue
        place = (row["_BOOT_ID"], unit.rsplit("-", 1)[0])
        if message == STARTED:
            if running[place]:
                found.append(f"{unit} was started beside {', '.join(running[place])}")
            running[place].add(unit)
        elif message in ENDED:
            running[place].discard(unit)
    return found
