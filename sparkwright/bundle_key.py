"""The key that signs a bundle's apt repository: made once, kept beside sparks.yaml, never in it.

OpenPGP comes from pysequoia (Sequoia's own library), the same on Linux and macOS, with or without
gpg; apt takes its signatures (gpgv 2.2.40, measured).
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pysequoia

from sparkwright.errors import Problem, SparkwrightError
from sparkwright.openpgp import sequoia

NAME: Final = "bundle-key.asc"
USER: Final = "sparkwright bundle <bundle@localhost>"
ANEW: Final = "move it away: the next run makes a new one, which machines get with the bundle"


class Key:
    """A secret key.

    + fingerprint: 40 upper-case hex digits; public: as `Signed-By` takes it
    """

    def __init__(self, secret: pysequoia.Tsk) -> None:
        cert = secret.extract_certificate()
        self.fingerprint = cert.fingerprint.upper()
        self.public = bytes(cert)
        self._secret = secret

    def clearsign(self, text: str) -> bytes:
        """A text with its signature, as InRelease has it."""
        return pysequoia.sign(
            self._secret.signer(), text.encode(), mode=pysequoia.SignatureMode.CLEAR
        )


def load_key(path: Path) -> Key:
    """The key of a file. Raises SparkwrightError when it cannot sign (any more)."""
    try:
        secret = pysequoia.Tsk.from_bytes(path.read_bytes())
        ends = secret.extract_certificate().expiration
        if ends and ends <= datetime.now(UTC):
            raise SparkwrightError(
                str(Problem(str(path), f"the key expired {ends:%Y-%m-%d}", ANEW))
            )
        key = Key(secret)
        key.clearsign("")
        return key
    except OSError as error:
        raise SparkwrightError(str(Problem(str(path), str(error.strerror), ANEW))) from error
    except SparkwrightError:
        raise
    except Exception as error:  # pysequoia raises what Rust's library says, with no type of its own
        raise SparkwrightError(
            str(Problem(str(path), f"is no signing key ({error})", ANEW))
        ) from error


def have_key(path: Path) -> Key:
    """The key of a file, made when there is none. It does not expire. Raises SparkwrightError."""
    if not path.exists():
        secret = pysequoia.Tsk.generate(USER, profile=pysequoia.Profile.RFC4880)
        beside = path.with_name(f".{path.name}.new")
        with os.fdopen(os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(str(secret))
        beside.replace(path)
    return load_key(path)


def signed_text(signed: bytes, public: bytes) -> str:
    """The text in a clear-signed message. Raises ValueError when that key did not sign it."""
    try:
        cert = pysequoia.Cert.from_bytes(public)
        found = pysequoia.verify(signed, lambda _: [cert])
    except Exception as error:  # as above
        raise ValueError(str(error).splitlines()[0]) from error
    if not found.valid_sigs or found.bytes is None:
        raise ValueError("no valid signature")
    return found.bytes.decode()


def fingerprint_of(public: bytes) -> str:
    """40 upper-case hex digits. Raises ValueError."""
    try:
        return str(sequoia().Cert.from_bytes(public).fingerprint.upper())
    except Exception as error:  # as above
        raise ValueError(str(error)) from error
