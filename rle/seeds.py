"""Named random streams. Nothing about a hidden instance can be computed without the salt.

    trial_key = SHA-256(domain || family || draw_key || namespace || trial || salt)
    stream    = PCG64(SHA-256(domain || trial_key || stream || ids))

Every field is length-prefixed, so that no two different tuples hash alike.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Namespace = Literal["public", "design", "smoke", "hidden"]
SALTED: frozenset[str] = frozenset({"smoke", "hidden"})
"""Namespaces that mix the salt in; the others are reproducible from public code."""

PRACTICE_SALT = b"rle-bench practice salt: public, marks every result practice"
"""Used when no salt file is given. Results made with it are never ranked."""

_TRIAL_DOMAIN = b"rle-bench/trial/1"
_STREAM_DOMAIN = b"rle-bench/stream/1"
_SALT_ID_DOMAIN = b"rle-salt-id/1"


def _digest(*parts: bytes) -> bytes:
    """SHA-256 over length-prefixed parts."""
    h = hashlib.sha256()
    for part in parts:
        h.update(len(part).to_bytes(8, "little"))
        h.update(part)
    return h.digest()


def salt_id(salt: bytes) -> str:
    """Public name of a salt: first 8 hex digits of SHA-256("rle-salt-id/1" || salt)."""
    return hashlib.sha256(_SALT_ID_DOMAIN + salt).hexdigest()[:8]


def trial_key(
    family: str, draw_key: str, namespace: Namespace, trial: int | str, salt: bytes = b""
) -> bytes:
    """Key of one trial, from which its streams follow and the salt cannot be recovered.

    Args:
        family: Family id, "f04".
        draw_key: `TaskSpec.draw_key`; tasks that share trials share it.
        namespace: Which kind of trial; `smoke` and `hidden` need a salt.
        trial: Trial number, or the seed that an agent or the card names.
        salt: The campaign's secret, or `PRACTICE_SALT`; ignored by `public` and `design`.

    Returns:
        32 bytes.

    Raises:
        ValueError: An unknown namespace, or a salted one without a salt.
    """
    if namespace not in get_args(Namespace):
        raise ValueError(f"namespace {namespace!r} is not one of {get_args(Namespace)}")
    if namespace in SALTED and not salt:
        raise ValueError(f"namespace {namespace!r} needs a salt")
    used = salt if namespace in SALTED else b""
    return _digest(
        _TRIAL_DOMAIN,
        family.encode(),
        draw_key.encode(),
        namespace.encode(),
        str(trial).encode(),
        used,
    )


def stream(key: bytes, name: str, *ids: int | str) -> np.random.Generator:
    """Generator of one named stream of a trial. Other names or ids: statistically independent.

    Args:
        key: 32 bytes of `trial_key`.
        name: What the draws are for ("dynamics", "push").
        ids: Further distinctions inside the trial.
    """
    seed = _digest(_STREAM_DOMAIN, key, name.encode(), *(str(i).encode() for i in ids))
    return np.random.Generator(np.random.PCG64(int.from_bytes(seed, "little")))


@dataclass(frozen=True)
class TrialStreams:
    """The named streams of one trial. May be sent to a trusted process; the salt cannot be recovered.

    Args:
        key: 32 bytes of `trial_key`.
    """

    key: bytes

    def __call__(self, name: str, *ids: int | str) -> np.random.Generator:
        """Stream `name` with further distinctions `ids`."""
        return stream(self.key, name, *ids)
