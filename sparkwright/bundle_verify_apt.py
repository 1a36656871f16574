"""Whether a bundle's packages can be installed on its machines: apt's own simulation, or ours.

Without apt (macOS) only dependencies are judged: not Conflicts and Breaks, and no choice between
alternatives. The machine's apt has the last word in any case.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from sparkwright.apt_elsewhere import Apt, have_apt, removed, told, unmet_lines
from sparkwright.deb_index import Deb, installed, unmet
from sparkwright.errors import SparkwrightError
from sparkwright.needs import Needs


def apt_problems(folder: Path, needs: Needs, debs: Sequence[Deb], status: str | None) -> list[str]:
    """What keeps the wanted packages from being installed, a phrase each.

    + folder: the bundle's apt repository; status: what the machines have, None: nothing is known
    """
    if have_apt():
        return simulated(folder, needs, status or "")
    return unmet((deb.fields for deb in debs), installed(status or ""))


def simulated(folder: Path, needs: Needs, status: str) -> list[str]:
    """What `apt-get -s install` says with this repository alone."""
    with tempfile.TemporaryDirectory() as place:
        apt = Apt(Path(place), needs.target.dpkg)
        apt.prepare(status)
        key = Path(place, "keys/bundle.gpg")
        key.write_bytes((folder / "key.gpg").read_bytes())
        where = quote(str(folder.absolute()))
        line = f"deb [arch={needs.target.dpkg} signed-by={key}] file:{where} ./\n"
        Path(place, "etc/sources.list").write_text(line)
        try:
            apt.update()
        except SparkwrightError as error:
            return [str(error)]
        done = apt.install(needs.packages, "--simulate")
        if done.returncode:
            return unmet_lines(done.stdout) or [told(done.stderr)]
        # A simulation does not look at the index's file names and hashes.
        listed = apt.install(needs.packages, "--print-uris")
        broken = [told(listed.stderr)] if listed.returncode else []
        return broken + [f"apt would remove {name}" for name in removed(done.stdout)]
