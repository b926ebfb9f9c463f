"""The identity of a process: its user, and the names under which Hive and other processes know it.

For example, ``compactor-worker-node-1-4711-9f86d081`` is a worker of process 4711 on host node-1, and
``compactor-node-1-initiator`` the initiator there.
"""

from __future__ import annotations

import os
import pwd
import re
import uuid
from dataclasses import dataclass

#: A restarting Hive takes back rows whose worker id begins with its host name, so no id of ours may (PROTOCOL 6).
PREFIX = "compactor-"
_HOST_LENGTH = 64
_HOLDER = re.compile(rf"{PREFIX}(?P<role>[a-z0-9_]+)-(?P<host>.+)-(?P<process>[0-9]+)-[^-]+")


def process_user() -> str:
    """Returns the name of this process's user from the account database, or its number without a name."""
    return user_name(os.geteuid())


def user_name(number: int) -> str:
    """Returns a user's name from the account database, or the number without a name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def holder_id(role: str, host: str) -> str:
    """Returns a new id for one holder of work in this process. It fits CQ_WORKER_ID's 128 characters."""
    return f"{PREFIX}{role}-{host[:_HOST_LENGTH]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderProcess:
    """The process that ``holder_id`` named: the first 64 characters of its host, and its number there."""

    host: str
    process: int

    @classmethod
    def from_id(cls, holder: str, role: str | None = None) -> HolderProcess | None:
        """Returns the process in an id of Compactor's; None if the id has another form, or is of another role."""
        match = _HOLDER.fullmatch(holder)
        if match is None or role not in (None, match["role"]):
            return None
        return cls(host=match["host"], process=int(match["process"]))

    def is_on(self, host: str) -> bool:
        return self.host == host[:_HOST_LENGTH]


def initiator_id(host: str, who: str) -> str:
    """Returns the id of a requester, for CQ_INITIATOR_ID."""
    return f"{PREFIX}{host}-{who}"


def is_compactor(holder: str | None) -> bool:
    """Returns true if an id is of a process of Compactor and not of Hive."""
    return holder is not None and holder.startswith(PREFIX)
