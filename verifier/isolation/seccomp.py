"""The system calls that a worker may not make, installed through libseccomp.

The worker loads this file by its path; it uses pyseccomp and the standard library only. The
default is to allow: numerical libraries use many calls, and what they could reach with them is
bounded by the other layers. What is denied answers EPERM, so that honest code gets an exception
and not a kill; `clone3` answers ENOSYS, which makes the C library fall back to `clone`.
"""

import errno
import os

DENIED = {
    "other processes": """ptrace process_vm_readv process_vm_writev pidfd_open pidfd_getfd
        pidfd_send_signal kcmp process_madvise process_mrelease move_pages migrate_pages
        rt_sigqueueinfo rt_tgsigqueueinfo""",
    "new programs": "fork vfork execve execveat",
    "sockets": "socketpair bind listen connect accept accept4",
    "kernel surface": """mount umount2 pivot_root move_mount open_tree fsopen fsconfig fsmount
        fspick mount_setattr unshare setns chroot bpf perf_event_open io_uring_setup
        io_uring_enter io_uring_register userfaultfd keyctl add_key request_key memfd_create
        memfd_secret kexec_load kexec_file_load init_module finit_module delete_module mknod
        mknodat open_by_handle_at personality swapon swapoff reboot sethostname setdomainname
        settimeofday clock_settime adjtimex clock_adjtime acct quotactl syslog""",
    "scheduling": """setsid setpgid setpriority sched_setaffinity sched_setattr sched_setparam
        sched_setscheduler ioprio_set""",
    "queues": """shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv
        msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
        inotify_init inotify_init1 inotify_add_watch fanotify_init fanotify_mark""",
    "metadata": """chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes
        utimensat futimesat setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr
        fremovexattr removexattrat""",
}
"""System calls that no profile may make, by what they would reach."""

DENIED_WITHOUT_FOLDERS = """link linkat symlink symlinkat rename renameat renameat2 unlink unlinkat
    mkdir mkdirat rmdir truncate"""
"""Denied besides where the profile has no writable folder."""

NUMBERS = {"fchmodat2": 452, "setxattrat": 463, "removexattrat": 466}
"""Calls newer than some libseccomp in use. From 424 on the number is the same on all architectures."""

CLONE_THREAD = 0x00010000
"""Flag of clone(2) for a thread of the same process. Source: linux/sched.h."""
AF_UNIX = 1
"""Address family of local sockets. Source: linux/socket.h."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
"""Options of prctl(2) that would undo the start order. Source: linux/prctl.h."""
UNIX_SOCKET_CALLS = frozenset(["bind", "listen", "accept", "accept4", "connect"])
"""Calls that a server on a local socket needs."""


def denied_names(*, folders: bool, unix_sockets: bool) -> list[str]:
    """Names that are denied whatever their arguments, sorted."""
    names = {name for group in DENIED.values() for name in group.split()}
    if not folders:
        names |= set(DENIED_WITHOUT_FOLDERS.split())
    if unix_sockets:
        names -= UNIX_SOCKET_CALLS
    return sorted(names)


def install(*, threads: bool, folders: bool, unix_sockets: bool) -> None:
    """Loads the filter into this process, for good; `no_new_privs` must be set.

    Args:
        threads: Whether `clone` may make threads; new processes are refused in any case.
        folders: Whether the profile has a writable folder (then files may be renamed and removed).
        unix_sockets: Whether local sockets may be made.

    Raises:
        OSError: The kernel or libseccomp refused the filter.
    """
    import pyseccomp as sc  # here, so that DENIED can be read where libseccomp is absent

    deny = sc.ERRNO(errno.EPERM)
    filter_ = sc.SyscallFilter(sc.ALLOW)

    def refuse(name: str, *conditions: object) -> None:
        number = sc.resolve_syscall(sc.Arch.NATIVE, name)
        if number < 0:  # unknown to this libseccomp, or absent on this architecture
            number = NUMBERS.get(name, number)
        if number >= 0:
            filter_.add_rule(deny, number, *conditions)

    for name in denied_names(folders=folders, unix_sockets=unix_sockets):
        refuse(name)
    own = os.getpid()
    for name in ("kill", "tkill", "tgkill"):
        refuse(name, sc.Arg(0, sc.NE, own))
    refuse("prlimit64", sc.Arg(0, sc.NE, 0))
    for option in (PR_SET_PDEATHSIG, PR_SET_DUMPABLE):
        refuse("prctl", sc.Arg(0, sc.EQ, option))
    if unix_sockets:
        refuse("socket", sc.Arg(0, sc.NE, AF_UNIX))
    else:
        refuse("socket")
    if threads:
        refuse("clone", sc.Arg(0, sc.MASKED_EQ, CLONE_THREAD, 0))
    else:
        refuse("clone")
    filter_.add_rule(sc.ERRNO(errno.ENOSYS), "clone3")
    filter_.load()
