"""Landlock by three system calls: deny every file right except reading below listed paths.

Standard library only: the worker loads this file by its path, before it restricts itself.
The numbers 444 to 446 are the same on every architecture and the interface is a stable ABI.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1
VERSION_FLAG = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""Rights that the kernel accepts in a rule for something that is not a directory."""

FS_BITS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights that an ABI knows; later ones know those of ABI 5."""
NET_TCP = 0b11
"""Bind and connect of TCP, from ABI 4."""
SCOPE_ALL = 0b11
"""Abstract UNIX sockets and signals to processes outside, from ABI 6."""

_libc = ctypes.CDLL(None, use_errno=True)


class LandlockError(OSError):
    """A Landlock call failed; `errno` and the text say which."""


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("fs", ctypes.c_uint64),
        ("net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def abi() -> int:
    """Version of the running kernel's Landlock ABI; 0 when it has none or it is switched off."""
    version = _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION_FLAG))
    return max(0, version)


def fs_rights(version: int) -> int:
    """Every file right that ABI `version` can deny, as a bit mask."""
    bits = FS_BITS_OF_ABI[min(version, max(FS_BITS_OF_ABI))]
    return (1 << bits) - 1


def _call(number: int, *args: object) -> int:
    result = _libc.syscall(number, *args)
    if result < 0:
        code = ctypes.get_errno()
        raise LandlockError(code, f"landlock system call {number}: {os.strerror(code)}")
    return result


def _allow(ruleset_fd: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= FILE_RIGHTS
        rule = _PathBeneath(allowed=rights, parent_fd=fd)
        _call(ADD_RULE, ruleset_fd, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(fd)


def restrict(readable: Iterable[str], writable: Iterable[str] = ()) -> int:
    """Restricts this process, for good, to the given paths; `no_new_privs` must be set.

    Args:
        readable: Files and folders to read and execute below; those that are absent are skipped.
        writable: Folders with every right below them.

    Returns:
        ABI version in force.

    Raises:
        LandlockError: The kernel has no Landlock or refused a call.
    """
    version = abi()
    if version == 0:
        raise LandlockError(errno.ENOSYS, "this kernel offers no Landlock")
    handled = fs_rights(version)
    attributes = _Ruleset(
        fs=handled, net=NET_TCP * (version >= 4), scoped=SCOPE_ALL * (version >= 6)
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset_fd = _call(CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    try:
        for path in readable:
            if os.path.exists(path):
                _allow(ruleset_fd, path, READ)
        for path in writable:
            _allow(ruleset_fd, path, handled)
        _call(RESTRICT_SELF, ruleset_fd, 0)
    finally:
        os.close(ruleset_fd)
    return version
