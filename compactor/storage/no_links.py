"""Opens files and directories without following a link (PROTOCOL 11.13).

``resolve`` follows the links on the way to a location, once. Any later link comes from somebody who may write in a table's
directory. The kernel checks each name of a path as it walks, so nobody can swap a name between a check and its use.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import sys
from collections.abc import Callable

from compactor.base.errors import UnsafeDirectory

_OPENAT2 = 437  #: number of the system call on nearly all processors
_AT_FDCWD = -100
_RESOLVE_NO_SYMLINKS = 0x04
_MISSING = {errno.ENOSYS, errno.EPERM}  #: a kernel before 5.6, or a container that forbids the call
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)  #: opens a directory to work in, even if it cannot be listed
#: Opening a pipe or a device by accident must not block, or make it the process's terminal.
_AT_ONCE = os.O_NONBLOCK | os.O_NOCTTY
_NEVER_FOLLOWED = os.O_CLOEXEC | os.O_NOFOLLOW | _AT_ONCE
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
LISTED = os.O_RDONLY | os.O_DIRECTORY
_TO_WORK_IN = _O_PATH | os.O_DIRECTORY


_ENCODING, _ENCODING_ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_path(path: str, flags: int, mode: int = 0) -> int:
    """Returns a descriptor of ``path``, which the caller closes. The flags are those of ``os.open``.

    Raises:
        UnsafeDirectory: a link is in the path.
        OSError: it cannot be opened.
    """
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW if flags & _O_PATH else _NEVER_FOLLOWED
    try:
        call = _openat2
        return _walk(path, flags, mode) if call is None else call(path, flags, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and (link := _first_link(path)) is not None:
            raise UnsafeDirectory(f"{link}: is a link; {NOT_TOUCHED}") from None
        raise


def below(directory: int, name: str, flags: int, mode: int = 0) -> int:
    """Returns a descriptor of the entry ``name`` of an open directory; raises ``OSError`` for a link."""
    return os.open(name, flags | _NEVER_FOLLOWED, mode, dir_fd=directory)


def regular(path: str) -> int:
    """Opens the regular file ``path`` to read and returns its descriptor, which the caller closes.

    Raises:
        UnsafeDirectory: it is not a regular file, or a link is in the path.
        OSError: it cannot be opened.
    """
    try:
        descriptor = open_path(path, os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UnsafeDirectory(f"{path}: is a socket or a device; {NOT_TOUCHED}") from None
        raise
    try:
        must_be_regular(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class _OpenDescriptor:
    """A descriptor that is closed when the block ends."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class Parent:
    """The directory that holds a name, open until the block ends. Yields its descriptor and the name."""

    __slots__ = ("_descriptor", "_name")

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name

    def __enter__(self) -> tuple[int, str]:
        return self._descriptor, self._name

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def reading(path: str) -> _OpenDescriptor:
    """Opens the regular file ``path`` for a block; see ``regular``."""
    return _OpenDescriptor(regular(path))


def directory(path: str) -> _OpenDescriptor:
    """Opens the directory ``path`` for a block, so that it can be listed."""
    return _OpenDescriptor(open_path(path, LISTED))


def parent(path: str, *, synced: bool = False) -> Parent:
    """Opens the directory that holds ``path`` for a block. It must be readable if the caller will sync it."""
    above, _, name = path.rpartition("/")
    return Parent(open_path(above or "/", LISTED if synced else _TO_WORK_IN), name)


def has_no_links(path: str) -> bool:
    """Returns true if ``path`` leads to a directory without a link, and is spelled in the shortest way."""
    if os.path.normpath(path) != path:
        return False
    try:
        os.close(open_path(path, _TO_WORK_IN))
    except (OSError, UnsafeDirectory):
        return False
    return True


NOT_TOUCHED = (
    "only regular files and directories are opened below a location, and nothing is done next to anything else; find out "
    "who put it there and remove it"
)


def must_be_regular(path: str, mode: int) -> None:
    """Raises ``UnsafeDirectory`` unless ``mode``, as in ``st_mode``, is that of a regular file."""
    if not stat.S_ISREG(mode):
        raise UnsafeDirectory(f"{path}: is {kind_of(mode)}; {NOT_TOUCHED}")


def kind_of(mode: int) -> str:
    """Returns the kind of file that an ``st_mode`` means, in words."""
    kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    more = ((stat.S_ISDIR, "a directory"), (stat.S_ISREG, "a regular file"))
    return next((words for matches, words in (*kinds, *more) if matches(mode)), "a device")


def _first_link(path: str) -> str | None:
    """Returns the first part of ``path`` that is a link, for a message; None if there is no link any more."""
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        upto = "/".join(parts[:end])
        if upto and os.path.islink(upto):
            return upto
    return None


def _walk(path: str, flags: int, mode: int) -> int:
    """Opens the names of a path in turn, for systems without ``openat2``."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    at = os.open("/" if path.startswith("/") else ".", _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names[:-1]:
            inside = os.open(name, _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = inside
        return os.open(names[-1] if names else ".", flags, mode, dir_fd=at)
    finally:
        os.close(at)


def _find_openat2() -> Callable[[str, int, int], int] | None:
    """Returns a function that opens a path by ``openat2``; None if the system has no such call."""
    if sys.platform != "linux":
        return None
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    system_call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    system_call.restype = ctypes.c_long
    size = ctypes.sizeof(_How)

    @functools.cache
    def how(flags: int, mode: int) -> ctypes.Array[ctypes.c_char]:
        structure = _How(flags=flags, mode=mode if flags & os.O_CREAT else 0, resolve=_RESOLVE_NO_SYMLINKS)
        return ctypes.create_string_buffer(bytes(structure), size)

    def call(path: str, flags: int, mode: int) -> int:
        encoded = path.encode(_ENCODING, _ENCODING_ERRORS)  # as ``os.fsencode``, for which every call counts
        if b"\0" in encoded:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        while True:
            descriptor: int = system_call(_OPENAT2, _AT_FDCWD, encoded, how(flags, mode), size)
            if descriptor >= 0:
                return descriptor
            failed = ctypes.get_errno()
            if failed != errno.EINTR:
                raise OSError(failed, os.strerror(failed), path)

    try:
        os.close(call("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0))
    except OSError as error:
        if error.errno not in _MISSING:
            raise
        return None
    return call


_openat2 = _find_openat2()
