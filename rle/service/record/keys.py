"""The deployment key pair (Ed25519) that signs a session's record, and its two files.

`broker.key` holds the 32 private bytes, `broker.pub` the 32 public bytes, each as 64 hex digits and a
newline. The private file is refused when others could read it.
"""

import hashlib
import os
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from rle.errors import UserError

_DOMAIN = b"rle-ledger-1\0"


def signed_bytes(index: int, prev: bytes, payload: bytes) -> bytes:
    """What a signature covers: domain, record index, hash of the record before, hash of the payload.

    Args:
        index: Number of the record.
        prev: SHA-256 of the record before, 32 bytes.
        payload: JSON of the payload with an empty `sig`.
    """
    return _DOMAIN + index.to_bytes(8, "big") + prev + hashlib.sha256(payload).digest()


class VerifyKey:
    """Public half. `deployment_id` = first 16 hex digits of SHA-256 over the 32 bytes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._key = Ed25519PublicKey.from_public_bytes(raw)

    @classmethod
    def from_hex(cls, text: str) -> "VerifyKey":
        return cls(bytes.fromhex(text.strip()))

    @classmethod
    def load(cls, path: Path) -> "VerifyKey":
        return cls(_read_hex(path, "public key"))

    @property
    def deployment_id(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def is_valid(self, signature: bytes, message: bytes) -> bool:
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """Private half; only the broker has it."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._key = Ed25519PrivateKey.from_private_bytes(raw)
        self.public = VerifyKey(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    @classmethod
    def generate(cls) -> "SigningKey":
        """A fresh pair from the operating system's randomness."""
        key = Ed25519PrivateKey.generate()
        return cls(key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))

    @classmethod
    def load(cls, path: Path) -> "SigningKey":
        """Reads `broker.key`.

        Raises:
            UserError: Missing, a link, readable by others, or not 64 hex digits.
        """
        info = os.lstat(path) if path.exists() else None
        if info is not None and stat.S_ISREG(info.st_mode) and info.st_mode & 0o077:
            raise UserError(
                f"{path} can be read by others (mode {stat.S_IMODE(info.st_mode):04o}); "
                f"run: chmod 600 {path}",
                code="key.mode",
            )
        return cls(_read_hex(path, "private key"))

    def sign(self, message: bytes) -> bytes:
        """64-byte signature."""
        return self._key.sign(message)

    def save(self, private: Path, public: Path | None = None) -> None:
        """Writes `broker.key` (0600, must not exist) and, if asked, `broker.pub` (0644)."""
        fd = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(self._raw.hex() + "\n")
        if public is not None:
            public.write_text(self.public.raw.hex() + "\n")


def _read_hex(path: Path, what: str) -> bytes:
    if not path.is_file() or path.is_symlink():
        raise UserError(f"{what} {path} is missing or not a regular file", code="key.missing")
    text = path.read_text(encoding="ascii", errors="replace").strip()
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise UserError(
            f"{what} {path} is not 64 hex digits; make a pair with `rle deploy`", code="key.format"
        )
    return raw
