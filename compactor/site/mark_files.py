"""The files that remember a metastore's marks outside of its database (PROTOCOL 11.2).

Each update writes one new file that never changes; the file with the largest number counts. No file is overwritten or
locked, so any number of processes may read and write on every store.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote

from compactor.base.errors import BadFile, StorageError
from compactor.compaction.mark_comparison import Remembered
from compactor.storage.protocol import Storage

log = logging.getLogger(__name__)
_ATTEMPTS = 5  #: tries to read a listed file, which another process may remove once there is a newer one
_KEPT = 2  #: files that stay in addition to the newest one
_UNFINISHED_KEPT = 100  #: an unfinished file is removed once the newest number is larger by this
#: Example: ``marks-00000000000000000012-3f2a.json``. Numbers never use the first two digits.
_NAME = re.compile(r"(\.?)marks-(00[0-9]{18})-([0-9a-z]+)\.json")


class MarkFiles:
    """The files of one metastore, in the folder ``place``.

    ``known`` and ``checked_at`` (seconds of a monotonic clock) are the result of the last check; ``listed`` and
    ``listed_at`` are the same for transactions of programs.

    Args:
        base: a directory at or above ``folder`` that is never created here: if it is missing, a file system is away.
    """

    def __init__(self, storage: Storage, folder: str, metastore: str, base: str | None = None) -> None:
        self._folder, self._metastore, self._base_folder = folder, metastore, folder if base is None else base
        self.known: tuple[Remembered, ...] = ()
        self.checked_at: float | None = None
        self.listed: tuple[Remembered, ...] = ()
        self.listed_at: float | None = None
        self._storage = storage
        self._read_before: dict[str, Remembered] = {}

    @cached_property
    def place(self) -> str:
        return f"{self._storage.resolve(self._folder)}/{quote(self._metastore, safe='')}"

    @cached_property
    def _base(self) -> str:
        return self._storage.resolve(self._base_folder)

    def newest(self) -> tuple[Remembered, ...]:
        """Returns the content of the files with the largest number.

        There is no file before the first update, and more than one if two databases wrote here.

        Raises:
            StorageError: the folder cannot be listed, or a file in it cannot be read.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            numbers = self._list_finished()
            if not numbers:
                self._must_be_there()
            names = [name for name, number in numbers.items() if number == max(numbers.values())]
            try:
                files = {name: self._read_before.get(name) or self._read(name) for name in names}
            except StorageError:
                if attempt == _ATTEMPTS:
                    raise
                continue
            self._read_before = files
            return tuple(files.values())
        raise AssertionError("unreachable: the last attempt returns or raises")

    def add(self, remembered: Remembered) -> None:
        """Writes a file durably, and removes files that it makes superfluous.

        Raises:
            StorageError: the file cannot be written.
        """
        token = remembered.token
        name = f"marks-{token.number:020d}-{token.text}.json"
        self._write(name, remembered.to_json())
        self._read_before = {name: remembered}
        self._remove_older(token.number)

    def add_agreement(self, number: int, text: str, content: Mapping[str, Any]) -> str:
        """Writes the record of a person's agreement with the earlier marks, and returns its path.

        It is never removed.

        Args:
            number: the number of the newest file.
            text: a random text, so that no file is overwritten.

        Raises:
            StorageError: the file cannot be written.
        """
        name = f"agreed-{number:020d}-{text}.json"
        self._write(name, content)
        return f"{self.place}/{name}"

    def largest_number(self) -> int:
        """Returns the largest number of a file, even an unreadable one; 0 without a file."""
        return max(self._list_finished().values(), default=0)

    def _list_finished(self) -> dict[str, int]:
        """Returns the names of complete files with their numbers."""
        parsed = {name: _NAME.fullmatch(name) for name in self._storage.children(self.place)}
        return {name: int(match[2]) for name, match in parsed.items() if match and not match[1]}

    def _read(self, name: str) -> Remembered:
        path = f"{self.place}/{name}"
        try:
            return Remembered.from_json(json.loads(self._storage.read(path)))
        except (ValueError, BadFile, RecursionError) as error:
            raise StorageError(
                f"{path}: what is remembered of this metastore cannot be read ({error}); wanted is a file that a release "
                "of Compactor wrote. Nothing is removed until then: put the file back from a copy, use the newer "
                "release, or accept the database as it is with `compactor metastore agree`"
            ) from error

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        path, text = f"{self.place}/{name}", json.dumps(content, indent=1).encode()
        if not self._storage.capabilities(self.place).renames:
            self._storage.write(path, text)  # in such a store a file appears completely or not at all
            return
        unfinished = f"{self.place}/.{name}"
        self._must_be_there()
        self._storage.make_directories(self.place, like=self._base)
        try:
            self._storage.write(unfinished, text)
            for error in self._storage.sync([unfinished]).values():
                raise error
            self._storage.rename(unfinished, path)
        except StorageError:
            self._try_to_remove(unfinished)
            raise

    def _must_be_there(self) -> None:
        """Checks that the base directory exists, if the store has directories.

        Raises:
            StorageError: it does not.
        """
        if self._storage.capabilities(self._base).renames and not self._storage.exists(self._base):
            raise StorageError(
                f"{self.place}: what is remembered of this metastore cannot be reached, since {self._base} is not there; "
                "nothing is removed until then. Mount it, create it, or name another folder in compactor.memory"
            )

    def _remove_older(self, number: int) -> None:
        """Removes superfluous files. Some may stay, such as files of other users."""
        try:
            parsed = [match for name in self._storage.children(self.place) if (match := _NAME.fullmatch(name))]
        except StorageError as error:
            log.debug("%s: superfluous files stay: %s", self.place, error)
            return
        older = sorted(match for match in ((int(m[2]), bool(m[1]), m[0]) for m in parsed) if match[0] < number)
        finished = [name for _, unfinished, name in older if not unfinished]
        abandoned = [name for n, unfinished, name in older if unfinished and n < number - _UNFINISHED_KEPT]
        for name in (*finished[:-_KEPT], *abandoned):
            self._try_to_remove(f"{self.place}/{name}")

    def _try_to_remove(self, path: str) -> None:
        try:
            self._storage.remove(path, durable=False)
        except StorageError as error:
            log.debug("%s stays: %s", path, error)
