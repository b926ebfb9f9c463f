"""The sources from which ORC files are read, and the sinks to which they are written.

The local implementations are here; ``rows`` has those for remote stores.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import io
import os
import struct
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from isal import isal_zlib

from compactor.base.errors import BadFile, FileGone, StorageError
from compactor.base.steps import StoreStep, reach
from compactor.settings.file_limits import UNLIMITED, FileLimits

PART = 8 * 1024 * 1024  #: bytes of a file that are worth a call to begin writing them to the disk
_WRITE = 2  #: flag of sync_file_range(2): start writing dirty pages, without waiting
CHUNK = 4 * 1024 * 1024  #: bytes moved at a time if the kernel cannot copy
_LARGEST_BLOCK = 64 * 1024  #: bytes; NFS calls a block what it transfers at once, such as a megabyte
_CLONE_RANGE = 0x4020940D  #: FICLONERANGE of ioctl_ficlonerange(2)


class Source(Protocol):
    """A file that is read at any offset."""

    @property
    def name(self) -> str:
        """The name for messages."""

    @property
    def length(self) -> int:
        """The length in bytes."""

    @property
    def is_local(self) -> bool:
        """True if the file is on this machine."""

    @property
    def tag(self) -> str | None:
        """A value that changes when the file is replaced, if its store has one."""

    @property
    def limits(self) -> FileLimits:
        """The limits of what the file may hold. Files that were written here have none."""

    def read(self, offset: int, length: int) -> bytes:
        """Returns exactly ``length`` bytes from ``offset`` on.

        Raises:
            BadFile: the file is too short, or is gone.
        """

    def descriptor(self) -> int | None:
        """Returns a new descriptor of a local file, with which the kernel can copy; None for any other file.

        The caller closes it.
        """


class Sink(Protocol):
    """A file that is written from its start to its end. Only ``close`` makes it complete."""

    def write(self, data: bytes) -> None: ...

    def copy(self, source: Source, offset: int, length: int) -> None:
        """Appends ``length`` bytes of ``source``."""

    def take_over(self, source: Source, offset: int, length: int, *, whole: bool = False) -> int | None:
        """Has the file system or store append a range of ``source``, after padding if necessary.

        Args:
            whole: the range has everything that matters in ``source``, so the rest may come along as padding.

        Returns:
            The range's offset in this file; None if nothing was appended and the bytes must be copied.
        """

    def align(self, offset: int, length: int, after: int) -> None:
        """Skips bytes so that a range will be taken over without padding, ``after`` further bytes later.

        Does nothing if it would not be taken over.
        """

    def tell(self) -> int:
        """Returns the number of bytes written."""

    def close(self) -> None:
        """Completes the file, durably."""

    def abort(self) -> None:
        """Abandons the file; nothing of it remains (PROTOCOL 3.4)."""


def chunks(source: Source, offset: int, length: int) -> Iterator[bytes]:
    """Yields a range of ``source`` in parts of bounded size."""
    while length > 0:
        data = source.read(offset, min(length, CHUNK))
        yield data
        offset, length = offset + len(data), length - len(data)


def crc32(source: Source, offset: int, length: int) -> int:
    """Returns the CRC-32 of a range."""
    checksum = 0
    for data in chunks(source, offset, length):
        checksum = isal_zlib.crc32(data, checksum)
    return checksum


class BytesSource:
    """A file in memory."""

    is_local = False
    tag = None

    def __init__(self, data: bytes | bytearray, name: str = "<memory>", limits: FileLimits = UNLIMITED) -> None:
        self._data = memoryview(data)
        self.name = name
        self.limits = limits
        self.length = len(data)

    def read(self, offset: int, length: int) -> bytes:
        return _whole(self._data[offset : offset + length].tobytes(), self.name, offset, length)

    def descriptor(self) -> int | None:
        return None


class LocalSource:
    """A file of the local file system, open until ``close``.

    Args:
        descriptor: of the file if it is already open; the source closes it.
    """

    is_local = True
    tag = None

    def __init__(
        self, path: str | os.PathLike[str], descriptor: int | None = None, limits: FileLimits = UNLIMITED
    ) -> None:
        self.name = os.fspath(path)
        self.limits = limits
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if descriptor is None else descriptor
        except FileNotFoundError as error:
            raise FileGone(f"file {self.name}: it is gone; list the directory again") from error
        except OSError as error:
            raise StorageError(f"file {self.name}: cannot be opened: {error.strerror}") from error
        self.length = os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, offset)
            while 0 < len(data) < length and (
                part := os.pread(self._descriptor, length - len(data), offset + len(data))
            ):
                data += part  # more than 2 GB, or a file system that returns short reads
        except OSError as error:
            raise StorageError(f"file {self.name}: cannot be read: {error.strerror}") from error
        return _whole(data, self.name, offset, length)

    def descriptor(self) -> int | None:
        return os.dup(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> LocalSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class LocalSink:
    """A new file of the local file system.

    Leaving a ``with`` block closes it, not yet durably; an exception aborts it.

    If it ``stays``, writing to the disk begins early. Ranges of ``shares`` bytes and more are taken over if the file system
    lets files share blocks; with None, no range is.
    """

    def __init__(self, path: str | os.PathLike[str], *, stays: bool = False, shares: int | None = None) -> None:
        self._path = Path(path)
        self._stays = stays
        self._shares = shares
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StorageError(f"file {self._path}: cannot be created: {error.strerror}") from error
        self._position = self._begun = 0
        self._kernel_copies = hasattr(os, "copy_file_range")

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                done = os.write(self._descriptor, view)
            except OSError as error:
                raise StorageError(f"file {self._path}: cannot be written: {error.strerror}") from error
            self._position += done
            view = view[done:]
        self._begin()

    def copy(self, source: Source, offset: int, length: int) -> None:
        descriptor = source.descriptor() if self._kernel_copies else None
        if descriptor is not None:
            try:
                done = self._kernel_copy(descriptor, offset, length)
            finally:
                os.close(descriptor)
            offset, length = offset + done, length - done
        for data in chunks(source, offset, length):
            self.write(data)

    def take_over(self, source: Source, offset: int, length: int, *, whole: bool = False) -> int | None:
        descriptor = None if self._shares is None or length < self._shares else source.descriptor()
        if descriptor is None:
            return None
        try:
            shared = share_range(descriptor, self._descriptor, self._position, offset, length)
        except OSError as error:
            if error.errno != errno.EXDEV:  # another source may be in this file system
                self._shares = None
            return None
        finally:
            os.close(descriptor)
        if shared is None:
            return None
        reach(StoreStep.RANGE_TAKEN)
        self.skip(shared.start - self._position)
        for data in chunks(source, offset, shared.head):
            self.write(data)
        self.skip(length - shared.head - shared.tail)
        for data in chunks(source, offset + length - shared.tail, shared.tail):
            self.write(data)
        return shared.start

    def align(self, offset: int, length: int, after: int) -> None:
        if self._shares is None or length < self._shares:
            return
        if (block := os.fstatvfs(self._descriptor).f_frsize) <= _LARGEST_BLOCK:
            self.skip((offset - self._position - after) % block)

    def skip(self, length: int) -> None:
        """Skips ``length`` bytes. They are zeros, unless blocks are shared there."""
        self._position = os.lseek(self._descriptor, length, os.SEEK_CUR)

    def _kernel_copy(self, descriptor: int, offset: int, length: int) -> int:
        """Returns how many bytes the kernel copied; fewer than ``length`` if it cannot copy them."""
        done = 0
        try:
            while done < length:
                part = os.copy_file_range(descriptor, self._descriptor, min(PART, length - done), offset + done)
                if part == 0:  # the source ends here; reading raises the error
                    break
                done += part
                self._position += part
                self._begin()
        except OSError:
            self._kernel_copies = False
        return done

    def _begin(self) -> None:
        if self._stays and self._position - self._begun >= PART:
            begin_writeback(self._descriptor, self._begun, self._position - self._begun)
            self._begun = self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            os.close(descriptor)
        except OSError as error:  # some file systems report only now that the disk is full
            raise StorageError(f"file {self._path}: cannot be written: {error.strerror}") from error

    def abort(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> LocalSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        self.abort()


def _whole(data: bytes, name: str, offset: int, length: int) -> bytes:
    if len(data) != length:
        raise BadFile(
            f"file {name}: {len(data)} bytes at offset {offset}, expected {length}; the file is shorter than it claims, "
            "restore it or move it away"
        )
    return data


def begin_writeback(descriptor: int, offset: int, length: int) -> bool:
    """Asks the kernel to start writing a range to the disk; returns true if it accepts.

    Errors appear only in fsync.
    """
    call = _sync_file_range()
    return call is not None and call(descriptor, offset, length, _WRITE) == 0


@cache
def _sync_file_range() -> Any:
    """Returns the C library's function; None on systems other than Linux."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint
    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRange:
    """A range at ``start`` of the new file.

    Its first ``head`` and last ``tail`` bytes must still be written.

    Those bytes do not fill a block, so they cannot be shared.
    """

    start: int
    head: int
    tail: int


def place_range(position: int, offset: int, length: int, block: int) -> SharedRange:
    """Returns the first place from ``position`` on at which a range's blocks are aligned as in the source."""
    return SharedRange(
        start=position + (offset - position) % block, head=-offset % block, tail=(offset + length) % block
    )


def share_range(source: int, target: int, position: int, offset: int, length: int) -> SharedRange | None:
    """Shares the whole blocks of a range of ``source`` with ``target``, whose bytes end at ``position``.

    Returns:
        The range's place in ``target``; None if it fills no block, or blocks are so large that padding would cost more.

    Raises:
        OSError: nothing was shared; with ``EXDEV`` because the two are in different file systems.
    """
    block = os.fstatvfs(target).f_frsize
    shared = place_range(position, offset, length, block)
    blocks = length - shared.head - shared.tail
    if blocks <= 0 or block > _LARGEST_BLOCK:
        return None
    request = struct.pack("qQQQ", source, offset + shared.head, blocks, shared.start + shared.head)
    fcntl.ioctl(target, _CLONE_RANGE, request)
    return shared


class Readable(io.RawIOBase):
    """A file of a known size; subclasses provide its bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size  #: in bytes
        self._place = 0

    @abstractmethod
    def part(self, start: int, end: int) -> bytes:
        """Returns the bytes from ``start`` to before ``end``, both within the file."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        remaining = max(0, self.size - self._place)
        count = remaining if size is None or size < 0 else min(size, remaining)
        data = self.part(self._place, self._place + count)
        self._place += count
        return data


class SourceFile(Readable):
    """The first ``size`` bytes of a source."""

    def __init__(self, source: Source, size: int) -> None:
        super().__init__(size)
        self._source = source

    def part(self, start: int, end: int) -> bytes:
        return self._source.read(start, end - start)
