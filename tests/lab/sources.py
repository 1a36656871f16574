"""Where this host gets Debian from: the lab names no mirror, it asks the host's own apt sources."""

from __future__ import annotations

import os
from pathlib import Path

from .host import LabError

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
POCKETS = ("", "-updates", "-security")


def _deb822(text: str) -> list[tuple[str, list[str]]]:
    """(uri, suites) pairs of a .sources file."""
    pairs = []
    for stanza in text.split("\n\n"):
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        fields = dict(line.split(":", 1) for line in lines if ":" in line and line[0] != " ")
        if "deb" in fields.get("Types", "").split():
            suites = fields.get("Suites", "").split()
            pairs += [(uri, suites) for uri in fields.get("URIs", "").split()]
    return pairs


def _one_line(text: str) -> list[tuple[str, list[str]]]:
    """(uri, suites) pairs of a .list file."""
    pairs = []
    for line in text.splitlines():
        words = line.split("#")[0].replace("[", " [ ").replace("]", " ] ").split()
        if words[:1] != ["deb"]:
            continue
        rest = words[words.index("]") + 1 :] if "[" in words else words[1:]
        if len(rest) >= 2:
            pairs.append((rest[0], rest[1:2]))
    return pairs


def _host_codename() -> str:
    """The host's Debian release, "" when it is not Debian."""
    lines = Path("/etc/os-release").read_text().splitlines()
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    if fields.get("ID", "").strip('"') != "debian":
        return ""
    return fields.get("VERSION_CODENAME", "").strip('"')


def debian_lines(suite: str, root: Path = Path("/etc/apt")) -> list[str]:
    """The one-line apt sources of a Debian suite, from the host's own configuration.

    A host of another Debian release has its code name replaced. $SPARKWRIGHT_LAB_DEBIAN (a URI, or
    several separated by blanks) is for hosts that are not Debian.

    **Raises**: `LabError` when nothing in the sources is Debian's main archive.
    """
    given = os.environ.get("SPARKWRIGHT_LAB_DEBIAN")
    if given:
        return [f"deb [signed-by={KEYRING}] {uri} {suite} main" for uri in given.split()]
    pairs = []
    for path in sorted(root.glob("sources.list.d/*.sources")):
        pairs += _deb822(path.read_text())
    for path in [root / "sources.list", *sorted(root.glob("sources.list.d/*.list"))]:
        pairs += _one_line(path.read_text()) if path.exists() else []
    codename = _host_codename()
    wanted = {codename + pocket: suite + pocket for pocket in POCKETS}
    lines = [
        f"deb [signed-by={KEYRING}] {uri} {wanted[name]} main"
        for uri, suites in pairs
        for name in suites
        if codename and name in wanted
    ]
    if not lines or not Path(KEYRING).exists():
        raise LabError(
            f"/etc/apt: no Debian sources with {KEYRING} here; the lab's machines are "
            "Debian: set SPARKWRIGHT_LAB_DEBIAN to a Debian archive and install "
            "debian-archive-keyring"
        )
    return list(dict.fromkeys(lines))
