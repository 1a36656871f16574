"""Drift of units: their text, what changes it from beside, their boot state, what runs."""

from __future__ import annotations

from .row import Row
from .site import GPT, LLAMA, Site

UNIT, OTHER = f"llm-{GPT}.service", f"llm-{LLAMA}.service"
FILE = f"/etc/systemd/system/{UNIT}"
ASKED = f"llm-{GPT}: has not answered its question since this start"
ASKED_OTHER = f"llm-{LLAMA}: has not answered its question since this start"
DIFFERS = f"{FILE}: content differs"
AWAY = ".set-aside-by-sparkwright"
RELOAD = "systemctl daemon-reload\n"
RESTART = f"systemctl restart {UNIT}\n"
NOT_READ = f"{UNIT}: systemd has not read its file again"


def dropin(place: str) -> str:
    """Shell text that leaves a drop-in."""
    text = "printf '[Service]\\nNice=3\\n'"
    return f"mkdir -p {place}/{UNIT}.d\n{text} >{place}/{UNIT}.d/mine.conf\n"


def set_aside(place: str) -> str:
    """Shell text that is right only when the drop-in was kept, out of use; then it is removed."""
    return f"test -f {place}/{UNIT}.d/mine.conf{AWAY}\nrm -r {place}/{UNIT}.d\n"


def nice(site: Site) -> None:
    """What runs has the priority of the recipe's unit, not of somebody's drop-in."""
    value = site.root(f"systemctl show -p Nice --value {UNIT}; cut -d' ' -f19 "
                      f"/proc/$(systemctl show -p MainPID --value {UNIT})/stat")  # fmt: skip
    assert value.split() == ["0", "0"], value


def nice_and_kept(site: Site) -> None:
    """The same, and the drop-in is still there for its author."""
    nice(site)
    site.root(set_aside("/etc/systemd/system"))


def weight(site: Site) -> None:
    """systemd has forgotten the property."""
    value = site.root(f"systemctl show -p CPUWeight --value {UNIT}")
    assert value != "50", value


def environment(site: Site) -> None:
    """The process has the vocabulary's real place again."""
    text = site.root(f"tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value {UNIT})/environ")
    assert "TIKTOKEN_ENCODINGS_BASE=/srv/sparkwright/tiktoken" in text.splitlines(), text


ROWS = (
    Row(
        "unit edited, not read by systemd yet",
        f"sed -i 's/^RestartSec=.*/RestartSec=1/' {FILE}",
        (DIFFERS,),
    ),
    Row(
        "unit edited and in force",
        f"sed -i 's/^\\[Service\\]/&\\nNice=3/' {FILE}\n{RELOAD}{RESTART}",
        (DIFFERS,), (ASKED,), (UNIT,), prove=nice,
    ),
    Row(
        "environment edited and in force",
        f"sed -i 's,^\\(Environment=.*TIKTOKEN_ENCODINGS_BASE=\\).*,\\1/nowhere\",' {FILE}\n"
        f"grep -q /nowhere {FILE}\n{RELOAD}{RESTART}",
        (DIFFERS,), (ASKED,), (UNIT,), prove=environment,
    ),
    Row("unit file deleted", f"rm {FILE}", (f"{FILE}: missing, not a file",)),
    Row("unit file mode", f"chmod 0666 {FILE}", (f"{FILE}: mode is 0666, not 0644",)),
    Row(
        "drop-in added and in force",
        dropin("/etc/systemd/system") + RELOAD + RESTART,
        (f"{FILE}.d/mine.conf: a drop-in changes {UNIT}",), (ASKED,), (UNIT,),
        prove=nice_and_kept,
    ),
    Row(
        "drop-in added, not read by systemd yet",
        dropin("/etc/systemd/system"),
        (f"{FILE}.d/mine.conf: a drop-in changes {UNIT}",), (NOT_READ,),
        prove=nice_and_kept,
    ),
    Row(
        "drop-in of systemctl set-property",
        f"systemctl set-property {UNIT} CPUWeight=50",
        (f"/etc/systemd/system.control/{UNIT}.d/50-CPUWeight.conf: a drop-in changes {UNIT}",),
        (ASKED,), (UNIT,),
        prove=weight,
    ),
    Row("stopped", f"systemctl stop {UNIT}", (f"{UNIT}: inactive, not active",), (ASKED,), (UNIT,)),
    Row(
        "crashed for good",
        f"systemctl kill -s ABRT {UNIT}\nsleep 2",
        (f"{UNIT}: *, not active",), (ASKED,), (UNIT,),
    ),
    Row("disabled", f"systemctl --quiet disable {UNIT}", (f"{UNIT}: disabled, not enabled",)),
    Row(
        "masked and stopped",
        f"systemctl stop {UNIT}\nln -sf /dev/null {FILE}\n{RELOAD}",
        (f"{UNIT}: masked, not enabled", f"{FILE}: link, not a file"),
        (f"{UNIT}: inactive, not active", ASKED), (UNIT,),
    ),
    Row(
        "masked while it runs",
        f"ln -sf /dev/null {FILE}\n{RELOAD}",
        (f"{UNIT}: masked, not enabled", f"{FILE}: link, not a file"),
    ),
    Row(
        "an older unit's process still runs",
        f"cp -p {FILE} /run/unit\nsed -i 's/\\(SPARKWRIGHT_DIGEST=\\)[0-9a-f]*/\\1000000000000/' "
        f"{FILE}\n{RELOAD}{RESTART}mv /run/unit {FILE}\n{RELOAD}",
        (f"{UNIT}: runs 000000000000, not *",), (ASKED,), (UNIT,),
    ),
    Row(
        "a run that died before the restart",
        f"install -D -m 0644 /dev/null /run/sparkwright/owed-{UNIT}",
        (f"{UNIT}: owes a restart since its unit was mended",), (ASKED,), (UNIT,),
    ),
    Row(
        "restarted by hand",
        f"systemctl restart {OTHER}",
        (ASKED_OTHER,), (), (OTHER,),
    ),
    Row(
        "proof of the answer deleted", f"rm /var/lib/sparkwright/accepted/llm-{GPT}.json", (ASKED,),
    ),
)  # fmt: skip
