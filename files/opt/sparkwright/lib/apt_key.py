"""Takes the signing key out of a keyring deb; installs it when its fingerprint is as pinned.

apt_key.py DEB KEYRING --fingerprint HEX
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path


def fingerprints(keyring: Path) -> list[str]:
    """Fingerprints of the primary keys in a keyring file."""
    show = ["gpg", "--batch", "--no-options", "--with-colons", "--show-keys", str(keyring)]
    with tempfile.TemporaryDirectory() as home:
        out = subprocess.run(
            [*show[:1], "--homedir", home, *show[1:]], capture_output=True, text=True, check=True
        ).stdout
    rows = [line.split(":") for line in out.splitlines()]
    after_pub = [b[9] for a, b in itertools.pairwise(rows) if a[0] == "pub"]
    return [text.upper() for text in after_pub]


def main(argv: list[str]) -> int:
    """Unpack, compare, install; nothing is written when the fingerprint differs."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("deb")
    options.add_argument("keyring")
    options.add_argument("--fingerprint", required=True)
    args = options.parse_args(argv)
    wanted = args.fingerprint.replace(" ", "").upper()
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["dpkg-deb", "-x", args.deb, place], check=True)
        found = sorted(Path(place).glob("usr/share/keyrings/*.gpg"))
        keys = {path: fingerprints(path) for path in found}
        right = [path for path, prints in keys.items() if prints == [wanted]]
        if not right:
            have = sorted(itertools.chain(*keys.values()))
            print(
                f"{args.deb}: its keys are {have}, not {wanted}; the "
                "repository's key was replaced, compare the lock with NVIDIA's page",
                file=sys.stderr,
            )
            return 1
        target = Path(args.keyring)
        beside = target.with_name(target.name + ".new")
        beside.write_bytes(right[0].read_bytes())
        beside.chmod(0o644)
        beside.replace(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
