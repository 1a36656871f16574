"""Whether a bundle is whole and right, without a network: every offender in one report."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from sparkwright.bundle_apt import wrong
from sparkwright.bundle_hash import Want, hash_file
from sparkwright.bundle_image_check import wrong_archive
from sparkwright.bundle_inputs import Inputs
from sparkwright.bundle_key import load_key
from sparkwright.bundle_layout import Entry, Manifest, read_manifest, tree
from sparkwright.bundle_plan import Disk, parts_of
from sparkwright.bundle_progress import shown
from sparkwright.bundle_verify_apt import apt_problems
from sparkwright.bundle_verify_wheels import foreign_wheel, unresolved, wheel_problems
from sparkwright.bundle_work import cores, run_all
from sparkwright.errors import Problem, Problems, SparkwrightError

AGAIN = "fill it again: sparkwright bundle"


def verify(
    top: Path, inputs: Inputs, key: Path, fast: bool, tell: Callable[[str], None]
) -> list[str]:
    """
    Everything that is wrong with a bundle, a line each; nothing is written to it.

    + key: the fleet's signing key; without the file whichever key lies in the bundle counts
    + fast: believe the stamps of the last run instead of hashing every byte

    Raises SparkwrightError when the directory cannot be looked at.
    """
    if not top.is_dir():
        raise SparkwrightError(str(Problem(str(top), "no such directory", AGAIN)))
    return Verifying(top, inputs, key, fast).run(tell)


class Verifying:
    """One look at one bundle."""

    def __init__(self, top: Path, inputs: Inputs, key: Path, fast: bool) -> None:
        self.top, self.inputs, self.key = top, inputs, key
        self.stop = threading.Event()
        self.disk = Disk(top, not fast, self.stop)
        self.problems = Problems()
        self.named: set[str] = set()

    def run(self, tell: Callable[[str], None]) -> list[str]:
        """See `verify`."""
        manifest = self._manifest()
        files = set(tree(self.top))
        self._required(files)
        wheels = self._wheels(files, manifest)
        signed = self._signature()
        self._rest(files, manifest)
        self._foreign(files, manifest)
        if signed and not any(name.startswith("apt/") for name in self.named):
            self._packages()
        if not len(self.problems):
            tell(f"{len(wheels)} wheels: asking uv to resolve them without an index")
            for where, what in unresolved(self.top, self.inputs.needs):
                self.problems.add(where, what, AGAIN)
        lines = [str(problem) for problem in self.problems]
        size = sum(entry.size for entry in self.disk.have.values())
        state = f"{len(lines)} things are wrong" if lines else "whole and right"
        what = f"{len(files)} files, {shown(size)}, for {self.inputs.needs.target}"
        tell(f"{self.top}: {what}: {state}")
        return lines

    def add(self, path: str, what: str, hint: str = AGAIN, artifact: str = "") -> None:
        """One offender; each file is named once."""
        if path not in self.named:
            self.named.add(path)
            whose = f" ({artifact})" if artifact else ""
            self.problems.add(f"{self.top}/{path}{whose}", what, hint)

    def _manifest(self) -> Manifest | None:
        try:
            found = read_manifest(self.top)
        except SparkwrightError as error:
            where, _, what = str(error).partition(": ")
            self.problems.add(where, what)
            return None
        if found is None:
            self.problems.add(str(self.top), "has no MANIFEST.json: it was never finished", AGAIN)
            return None
        own = hashlib.sha256(self.inputs.lock.path.read_bytes()).hexdigest()
        if found.lock_sha256 != own:
            what = f"was made from another {self.inputs.lock.path.name} ({found.lock_sha256[:12]}, "
            self.problems.add(str(self.top), f"{what}the fleet's is {own[:12]})", AGAIN)
        want = self.inputs.needs.target.as_data()
        for name in sorted(want):
            have = found.made_for.get(name)
            if have != want[name]:
                what = f"was made for {name} {have}, the machines have {want[name]}"
                self.problems.add(str(self.top), what, AGAIN)
        return found

    def _required(self, files: set[str]) -> None:
        """Files of known name, and images."""
        parts = parts_of(self.inputs.needs, self.inputs.debs, None, {})
        self.disk.look(parts)
        for part in parts:
            artifact = part.want.name.rsplit(": ", 1)[0]
            if part.path not in files:
                self.add(part.path, "is missing", AGAIN, artifact)
            elif part.path in self.disk.wrong:
                self.add(part.path, self.disk.wrong[part.path], AGAIN, artifact)
        for item in self.inputs.needs.images:
            path = f"images/{item.name}.tar"
            if path not in files:
                self.add(path, "is missing", AGAIN, f"artifacts/{item.name}")
                continue
            found = wrong_archive(self.top / path, item, self.stop)
            if found:
                self.add(path, found, AGAIN, f"artifacts/{item.name}")

    def _wheels(self, files: set[str], manifest: Manifest | None) -> Mapping[str, str]:
        known = self.disk.wheels()
        listed = {entry.path for entry in manifest.files} if manifest else files
        names = [path.removeprefix("wheels/") for path in listed if path.startswith("wheels/")]
        for path, what, artifact in wheel_problems(self.inputs.needs, known, names):
            self.add(path, what, AGAIN, artifact)
        for name in sorted(known.values()):
            reason = foreign_wheel(name, self.inputs.needs)
            if reason:
                hint = AGAIN if f"wheels/{name}" in listed else "remove it"
                self.add(f"wheels/{name}", reason, hint)
        for sha256, name in known.items():
            size = (self.top / "wheels" / name).stat().st_size
            self.disk.have[f"wheels/{name}"] = Entry(f"wheels/{name}", size, sha256)
        return known

    def _rest(self, files: set[str], manifest: Manifest | None) -> None:
        """What only the manifest vouches for, and that it agrees with the rest."""
        entries = manifest.files if manifest else ()
        unknown = [e for e in entries if e.path in files and e.path not in self.disk.have
                   and e.path not in self.named]  # fmt: skip

        def look(entry: Entry) -> None:
            told = hash_file(self.top / entry.path, Want(entry.path, "", None, None), self.stop)
            self.disk.have[entry.path] = Entry(entry.path, told.size, told.sha256)

        run_all(unknown, look, cores(), self.stop, self.problems)
        for entry in entries:
            have = self.disk.have.get(entry.path)
            if entry.path not in files:
                self.add(entry.path, "is missing")
            elif have and have.sha256 != entry.sha256:
                self.add(entry.path, f"has sha256 {have.sha256}, the manifest says {entry.sha256}")

    def _foreign(self, files: set[str], manifest: Manifest | None) -> None:
        if manifest is None:
            return
        for path in sorted(files - {entry.path for entry in manifest.files}):
            self.add(path, "does not belong to the bundle", "remove it")

    def _signature(self) -> bool:
        """Whether the fleet's key vouches for the packages' index."""
        fingerprint = None
        try:
            fingerprint = load_key(self.key).fingerprint if self.key.exists() else None
        except SparkwrightError as error:
            where, _, what = str(error).partition(": ")
            self.problems.add(where, what)
        inputs = self.inputs
        found = wrong(self.top / "apt", inputs.debs, inputs.needs.target, fingerprint)
        for name, what in found:
            self.add(f"apt/{name}", what)
        return not found

    def _packages(self) -> None:
        """Whether the packages are enough."""
        folder, inputs = self.top / "apt", self.inputs
        for what in apt_problems(folder, inputs.needs, inputs.debs, inputs.status):
            self.problems.add(str(folder), what, "run: sparkwright lock --debs SPARK")
