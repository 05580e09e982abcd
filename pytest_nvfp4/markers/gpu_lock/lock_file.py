"""One system-wide lock: flock(2) on a file or folder, compatible with the `flock` command.

The kernel ties the lock to the open file, so it is free as soon as its holder is killed, and
nothing stale remains; the file itself is kept, because unlinking it would admit two holders.

How waiting works: flock(2) either returns at once or blocks, and a blocked call ends only when the
lock is granted or a signal arrives. Asking again and again would cost the polling interval at every
hand-over and lose the place in the queue; an alarm signal belongs to pytest-timeout and the tests;
a child process that blocks in our place would be shown as the holder after it has ended. So a
thread blocks, with all signals masked, and the caller waits for it on an event, which takes
a timeout and Ctrl-C. The thread ends as the lock is granted. Where the caller gives up, its thread
stays blocked until the holder releases the lock, and then releases it at once.

What forks: a child made by exec never has the descriptor (close-on-exec); a child made by os.fork
closes its copy first, which does not unlock, so that it neither releases the lock nor keeps it
after the holder has ended. Only the process that took a lock releases it.
"""

import errno
import fcntl
import os
import signal
import stat
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from pytest_nvfp4.markers.gpu_lock.holders import describe_holders, user_name
from pytest_nvfp4.markers.gpu_lock.kernel_locks import identity_of

FIRST_NOTICE, NEXT_NOTICES = 1.0, 60.0  # seconds of waiting

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block us


class LockError(Exception):
    """A lock that cannot be taken; the text is one sentence for the user."""


class LockTimeoutError(LockError):
    """A lock that another process held until the timeout."""


class LockFile:
    """An open lock file; `locked` says whether this process holds it through this object.

    `name` is its name in messages; without one, its path.
    """

    def __init__(self, path: Path, *, exclusive: bool = True, name: str = ""):
        self.path = path
        self.name = name or str(path)
        self.exclusive = exclusive
        self.locked = False
        self.descriptor = open_lock(path)
        _OPEN.add(self)

    @property
    def identity(self) -> str:
        """The file's name in the kernel's list of locks; see `kernel_locks.identity_of`."""
        return identity_of(self.descriptor)

    def try_lock(self) -> bool:
        """Take the lock if it is free, and return whether it was; raises LockError."""
        while True:
            try:
                fcntl.flock(self.descriptor, self._operation | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as error:
                raise self._refused(error) from None
            if self._is_current():
                self.locked = True
                return True
            self._reopen()

    def wait(self, deadline: float | None, notice: Callable[[str], None]) -> None:
        """Wait for the lock until a time of `time.monotonic`; raises LockError, LockTimeoutError.

        `notice` gets a sentence with the holders after one second, and again every minute.
        """
        start = time.monotonic()
        while not self.try_lock():
            waiter = _Waiter(self.descriptor, self._operation)
            # From here on the descriptor is the waiter's: it may be needed after we gave up.
            self.descriptor = -1
            try:
                self._watch(waiter, start, deadline, notice)
            except BaseException:
                waiter.abandon()
                raise
            self.descriptor = waiter.descriptor
            if waiter.error is not None:
                raise self._refused(waiter.error) from None
            if self._is_current():
                self.locked = True
                return
            self._reopen()

    def _watch(
        self,
        waiter: "_Waiter",
        start: float,
        deadline: float | None,
        notice: Callable[[str], None],
    ) -> None:
        waiter.start()
        next_notice = max(start + FIRST_NOTICE, time.monotonic())
        while True:
            until = next_notice if deadline is None else min(next_notice, deadline)
            if waiter.done.wait(max(0.0, until - time.monotonic())):
                return
            now = time.monotonic()
            holders = describe_holders(identity_of(waiter.descriptor), hurry=waiter.done.is_set)
            if deadline is not None and now >= deadline:
                raise LockTimeoutError(
                    f"{self.name} was not free within {now - start:.3g} s, held by {holders}; "
                    f"wait longer with timeout=, or end what holds it"
                )
            if not waiter.done.is_set():
                notice(f"waiting for {self.name} for {now - start:.0f} s, held by {holders}")
            next_notice = now + NEXT_NOTICES

    def close(self) -> None:
        """Release the lock and close the file; in a forked child, this does nothing."""
        _OPEN.discard(self)
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor < 0:
            return
        try:
            # Copies of the descriptor elsewhere would keep the lock if we only closed ours.
            if self.locked:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            self.locked = False
            os.close(descriptor)

    def forget(self) -> None:
        """In a forked child: close the copy, which leaves the parent's lock alone."""
        descriptor, self.descriptor, self.locked = self.descriptor, -1, False
        if descriptor >= 0:
            os.close(descriptor)

    @property
    def _operation(self) -> int:
        return fcntl.LOCK_EX if self.exclusive else fcntl.LOCK_SH

    def _is_current(self) -> bool:
        """Whether the path still leads to the file that we locked.

        It may have been removed while we waited; other processes lock the file that is there now.
        """
        try:
            now = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(now, os.fstat(self.descriptor))

    def _reopen(self) -> None:
        os.close(self.descriptor)
        self.descriptor = -1
        self.descriptor = open_lock(self.path)

    def _refused(self, error: OSError) -> LockError:
        why = error.strerror or str(error)
        if error.errno in (errno.EBADF, errno.EIO, errno.ENOLCK, errno.EOPNOTSUPP):
            why += "; its file system has no flock for a file opened for reading (is it NFS?)"
        return LockError(f"cannot lock {self.path}: {why}; choose a path on a local file system")


class _Waiter(threading.Thread):
    """A thread that blocks until the kernel grants the lock."""

    def __init__(self, descriptor: int, operation: int):
        super().__init__(name="gpu_lock waiter", daemon=True)
        self.descriptor = descriptor
        self.error: OSError | None = None
        self.done = threading.Event()
        self._operation = operation
        self._turn = threading.Lock()
        self._abandoned = False
        _OPEN.add(self)

    def run(self) -> None:
        # Signals are for the thread that waits for this one and can act on them.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            fcntl.flock(self.descriptor, self._operation)
        except OSError as error:
            self.error = error
        with self._turn:
            _OPEN.discard(self)
            self.done.set()
            if self._abandoned:
                self._release()

    def abandon(self) -> None:
        """Release the lock, now or as soon as it is granted: the caller has given up."""
        with self._turn:
            self._abandoned = True
            if self.done.is_set() or self.ident is None:
                self._release()

    def _release(self) -> None:
        # Closing is not enough where a fork has copied the descriptor meanwhile.
        if self.error is None:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)

    def forget(self) -> None:
        """In a forked child: there is no thread, and the copy of the descriptor has to go."""
        os.close(self.descriptor)


# Global, since a fork is not a call of ours, and a function that is registered for forks can never
# be unregistered.
_OPEN: "weakref.WeakSet[LockFile | _Waiter]" = weakref.WeakSet()


def _forget_all() -> None:
    for one in list(_OPEN):
        one.forget()
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget_all)


def open_lock(path: Path) -> int:
    """Open a file or folder for locking; where there is none, create a file that all may use.

    Raises LockError. Opening comes first and without O_CREAT: with it, the kernel refuses another
    user's file in a sticky folder such as /tmp, even to root (fs.protected_regular).
    """
    for _ in range(100):  # others may create and remove it at the same moment
        try:
            descriptor = _open_or_create(path)
        except (FileNotFoundError, FileExistsError):
            if not path.parent.is_dir():
                raise LockError(
                    f"cannot open the lock {path}: there is no folder {path.parent}; create it, "
                    f"or name another path"
                ) from None
            continue
        except OSError as error:
            raise LockError(f"cannot open the lock {path}: {_why(path, error)}") from None
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
            return descriptor
        os.close(descriptor)
        raise LockError(f"cannot lock {path}: it is neither a file nor a folder; name another path")
    raise LockError(
        f"cannot open the lock {path}: another process keeps removing it; stop that process"
    )


def _open_or_create(path: Path) -> int:
    try:
        return os.open(path, _FLAGS)
    except FileNotFoundError:
        descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
    os.fchmod(descriptor, 0o666)  # whatever the umask is: other users have to be able to open it
    return descriptor


def _why(path: Path, error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a symbolic link, and those are not followed; name the file itself"
    if error.errno not in (errno.EACCES, errno.EPERM):
        return f"{error.strerror}; name another path"
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return "permission denied; ask for access to its folder, or name another path"
    return (
        f"permission denied (it belongs to {user_name(status.st_uid)}, "
        f"mode {stat.S_IMODE(status.st_mode):04o}); ask for mode 0666, or name another path"
    )
