"""The apt source of a bundle: one file, its key inside, which apt reads when it is told to.

The machine's own sources stay as they are; on an isolated machine apt would wait for their names.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparkwright.errors import Problem, SparkwrightError
from sparkwright.openpgp import sequoia
from sparkwright.resources import File
from sparkwright.sources import APT_FILE, Source, source_of

KEY_FILE = "apt/key.gpg"  # in a bundle


def apt_files(data: Mapping[str, Any]) -> list[File]:
    """What a machine needs before its first package; nothing when its own sources are asked."""
    source = source_of(data)
    if not source.plain:
        return []
    return [File(APT_FILE, sources_text(source, armoured(_key(data, source))))]


def sources_text(source: Source, key: str) -> str:
    """The sources file (deb822, sources.list(5)); signed by this key and no other.

    + key: ASCII armour; apt takes it inside the file since 2.3.10
    """
    lines = "\n".join(f" {line.strip() or '.'}" for line in key.strip().splitlines())
    return (
        "# Managed by sparkwright: the packages of the bundle.\n"
        f"Types: deb\nURIs: {source.at('apt')}\nSuites: ./\nSigned-By:\n{lines}\n"
    )


def _key(data: Mapping[str, Any], source: Source) -> Path:
    """The fleet's key, or the one that came with the directory beside the laptop's lock."""
    own = Path(str(data.get("artifacts_key", "")))
    if own.is_file():
        return own
    if source.kind == "bundle":
        return Path(source.origin) / KEY_FILE
    what = "is not there, and packages of a mirror are taken with this key's signature alone"
    hint = "copy it from where the bundle was made; its public part will do (apt/key.gpg)"
    raise SparkwrightError(str(Problem(str(own), what, hint)))


@functools.cache
def armoured(path: Path) -> str:
    """The public part of a key file as ASCII armour. Raises SparkwrightError.

    A key that has expired too: no machine's apt takes its signatures (gpgv, EXPKEYSIG).
    """
    try:
        cert = sequoia().Cert.from_bytes(path.read_bytes())
        if cert.expiration and cert.expiration <= datetime.now(UTC):
            hint = "move it away where the bundle is made, and fill the bundle again"
            what = f"the key expired {cert.expiration:%Y-%m-%d}"
            raise SparkwrightError(str(Problem(str(path), what, hint)))
        return str(cert)
    except SparkwrightError:
        raise
    except OSError as error:
        hint = "fill the bundle again: sparkwright bundle"
        raise SparkwrightError(str(Problem(str(path), str(error.strerror), hint))) from error
    except Exception as error:  # pysequoia raises what Rust's library says, with no type of its own
        what = f"is no key ({str(error).splitlines()[0]})"
        raise SparkwrightError(
            str(Problem(str(path), what, "copy it from where the bundle was made"))
        ) from error
