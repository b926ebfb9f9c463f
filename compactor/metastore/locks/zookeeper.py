"""Locks as ephemeral nodes of ZooKeeper: Hive's ``ZooKeeperHiveLockManager``, without transactions.

A lock is a node ``LOCK-<mode>-<sequence>`` below ``/<namespace>/<database>/<table>/<key=value>/...``, for example
``/hive_zookeeper_namespace/sales/orders/day=1/LOCK-SHARED-0000000007``. It conflicts only with nodes of a lower sequence
below the same object, so a request also locks the parents of its objects, shared. A request that conflicts removes all
its nodes and tries again later. It never queues, so writers can starve behind readers.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from compactor.base.errors import LocksUnavailable, NotFound, NotSupported, Refused
from compactor.base.ids import TxnId
from compactor.locking.lock_types import LockRequest, LockType, sorted_requests, with_parents
from compactor.metastore.locks.lock_rows import Lock, LockRow, LockState

NAMESPACE = "hive_zookeeper_namespace"  #: ``hive.zookeeper.namespace``
SESSION_TIMEOUT_SECONDS = 120.0  #: ``hive.zookeeper.session.timeout``
ANSWER_TIMEOUT_SECONDS = 30.0  #: without an answer for this time the session is closed
_PREFIX = "LOCK"
_ATTEMPTS = 10  #: attempts to create a node, whose empty parent another session may remove meanwhile

_MODES = {
    LockType.SHARED_READ: "SHARED",
    LockType.SHARED_WRITE: "SEMI_SHARED",
    LockType.EXCL_WRITE: "SEMI_SHARED",
    LockType.EXCLUSIVE: "EXCLUSIVE",
}
_TYPES = {"SHARED": LockType.SHARED_READ, "SEMI_SHARED": LockType.SHARED_WRITE, "EXCLUSIVE": LockType.EXCLUSIVE}
#: For each mode the earlier modes that block it.
_AGAINST = {
    "SHARED": frozenset({"EXCLUSIVE"}),
    "SEMI_SHARED": frozenset({"SEMI_SHARED", "EXCLUSIVE"}),
    "EXCLUSIVE": frozenset({"SHARED", "SEMI_SHARED", "EXCLUSIVE"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """One lock node: its name and the object's path above it."""

    object_path: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.object_path}/{self.name}"

    @property
    def mode(self) -> str:
        return self.name.split("-")[1]

    @property
    def sequence(self) -> int:
        return int(self.name.rsplit("-", 1)[1])


@dataclass(slots=True, kw_only=True)
class _OwnRequest:
    """A request of this session, with its nodes once it is granted."""

    txn: TxnId
    requests: tuple[LockRequest, ...]
    data: bytes
    nodes: tuple[_Node, ...] = ()


class ZooKeeperLocks:
    """A lock manager (``LockManager``). Its locks end with its session."""

    def __init__(
        self, client: Any, hosts: str, namespace: str = NAMESPACE, *, answer_timeout: float = ANSWER_TIMEOUT_SECONDS
    ) -> None:
        self._client = client
        self._hosts = hosts
        self._answer_timeout = answer_timeout
        self._given_up = False
        self._root = "/" + namespace.strip("/")
        self._numbers = itertools.count(1)
        self._requests: dict[int, _OwnRequest] = {}
        self._mutex = threading.RLock()

    def acquire(
        self, txn: TxnId, requests: Iterable[LockRequest], user: str, host: str, *, agent: str | None = None
    ) -> Lock:
        """Locks all of ``requests``, and their parents shared, in sorted order; or nothing.

        ``agent`` is the query's id. Locks of one transaction (not 0) never block each other.

        Raises:
            Refused: nothing is requested.
            LocksUnavailable: ZooKeeper does not answer.
        """
        sorted_locks = sorted_requests(part for request in requests for part in with_parents(request))
        if not sorted_locks:
            raise Refused(f"transaction {txn} requests no lock; name at least one object")
        query = agent or f"{user}_{uuid.uuid4()}"
        data = f"{query}:{int(time.time() * 1000)}:IMPLICIT::{host}".encode()
        with self._mutex:
            number = next(self._numbers)
            self._requests[number] = _OwnRequest(txn=txn, requests=sorted_locks, data=data)
            return self.check(number)

    def check(self, lock_id: int) -> Lock:
        """Tries a request again that was not granted, or checks that a granted one still holds.

        Raises:
            NotFound: the lock was released, or its session ended.
            LocksUnavailable: ZooKeeper does not answer.
        """
        with self._mutex, self._translate_errors():
            own_request = self._known(lock_id)
            if own_request.nodes:
                if not all(self._call("exists", node.path) for node in own_request.nodes):
                    self._withdraw(lock_id)
                    raise NotFound(f"lock {lock_id} is not there: the session at {self._hosts} that held it ended")
                return Lock(id=lock_id, state=LockState.ACQUIRED)
            taken: list[_Node] = []
            try:
                for request in own_request.requests:
                    node = self._create_node(request, own_request.data)
                    taken.append(node)
                    blocker = self._blocker(node, own_request.txn)
                    if blocker is not None:
                        self._remove(taken)
                        return Lock(id=lock_id, state=LockState.WAITING, blockers=(blocker,))
            except BaseException:
                with suppress(Exception):  # nodes that cannot be removed end with the session
                    self._remove(taken)
                raise
            own_request.nodes = tuple(taken)
            return Lock(id=lock_id, state=LockState.ACQUIRED)

    def release(self, lock_id: int) -> bool:
        """Removes the nodes and empty objects above them; returns false if the lock no longer exists."""
        with self._mutex, self._translate_errors():
            return self._withdraw(lock_id)

    def show(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> list[LockRow]:
        """Returns the locks on a database, a table, a partition or all, in the order of their creation.

        ``id`` is the ZooKeeper transaction that created the node. Modes are shown as the lock types that they represent.
        """
        with self._translate_errors():
            rows = list(self._walk(self._root, ()))
        return sorted(
            (
                row
                for row in rows
                if (database is None or row.database == database)
                and (table is None or row.table == table)
                and (partition is None or row.partition == partition)
            ),
            key=lambda row: row.id,
        )

    def close(self) -> None:
        """Ends the session and with it all locks."""
        with suppress(Exception):  # a session that cannot be closed times out
            self._client.stop()
            self._client.close()
        self._requests.clear()

    def _call(self, call: str, *args: Any, **options: Any) -> Any:
        """Makes one call of the client with a time-out; without one it would wait forever for a lost server.

        The call may still take effect when the server comes back. So a time-out ends the session and its locks.
        """
        from kazoo.handlers.threading import KazooTimeoutError

        self._must_live()
        try:
            return getattr(self._client, f"{call}_async")(*args, **options).get(timeout=self._answer_timeout)
        except KazooTimeoutError:
            self._given_up = True
            self.close()
            raise

    def _must_live(self) -> None:
        if self._given_up:
            raise LocksUnavailable(
                f"ZooKeeper {self._hosts}: it did not answer, so the session and its locks were closed; open another"
            )

    def _known(self, lock_id: int) -> _OwnRequest:
        self._must_live()
        if lock_id not in self._requests:
            raise NotFound(f"lock {lock_id} is not there: it was released, or another process requested it")
        return self._requests[lock_id]

    def _withdraw(self, lock_id: int) -> bool:
        own_request = self._requests.get(lock_id)
        if own_request is None:
            return False
        self._remove(own_request.nodes)
        del self._requests[lock_id]
        return True

    def _create_node(self, request: LockRequest, data: bytes) -> _Node:
        import kazoo.exceptions

        where = self._path(request)
        prefix = f"{where}/{_PREFIX}-{_MODES[request.type]}-"
        for _ in range(_ATTEMPTS):
            try:
                path: str = self._call("create", prefix, data, ephemeral=True, sequence=True, makepath=True)
                return _Node(object_path=where, name=path.rsplit("/", 1)[1])
            except kazoo.exceptions.NoNodeError:
                continue  # another session removed the empty object before our node was created
            except kazoo.exceptions.ConnectionLoss:
                self._remove(node for node in self._nodes(where) if self._call("get", node.path)[0] == data)
                raise
        raise LocksUnavailable(
            f"{request}: its node in {self._hosts} was removed {_ATTEMPTS} times while it was created"
        )

    def _blocker(self, own: _Node, txn: TxnId) -> LockRow | None:
        """Returns the first earlier lock of the same object that blocks ``own``."""
        ours = {n.path for a in self._requests.values() if txn and a.txn == txn for n in a.nodes}
        for node in sorted(self._nodes(own.object_path), key=lambda n: n.sequence):
            if node.sequence >= own.sequence or node.mode not in _AGAINST[own.mode] or node.path in ours:
                continue
            row = self._row(node)
            if row is not None:
                return row
        return None

    def _nodes(self, object_path: str) -> list[_Node]:
        return [
            _Node(object_path=object_path, name=name)
            for name in self._call("get_children", object_path)
            if name.startswith(f"{_PREFIX}-")
        ]

    def _remove(self, nodes: Iterable[_Node]) -> None:
        import kazoo.exceptions as gone

        for node in nodes:
            with suppress(gone.NoNodeError):
                self._call("delete", node.path)
            path = node.object_path
            while path != self._root:
                try:
                    self._call("delete", path)
                except (gone.NotEmptyError, gone.NoNodeError):
                    break
                path = path.rsplit("/", 1)[0]

    def _path(self, request: LockRequest) -> str:
        names = [request.database, request.table, request.partition]
        return "/".join([self._root, *(name for name in names if name is not None)])

    def _walk(self, path: str, names: tuple[str, ...]) -> Iterator[LockRow]:
        import kazoo.exceptions

        try:
            children = self._call("get_children", path)
        except kazoo.exceptions.NoNodeError:
            return
        for name in children:
            if name.startswith(f"{_PREFIX}-"):
                row = self._row(_Node(object_path=path, name=name))
                if row is not None:
                    yield row
            else:
                yield from self._walk(f"{path}/{name}", (*names, name))

    def _row(self, node: _Node) -> LockRow | None:
        """Returns the lock as a row; None if it has ended. Hive's data is ``query id:time:mode:query:client``."""
        import kazoo.exceptions

        try:
            data, stat = self._call("get", node.path)
        except kazoo.exceptions.NoNodeError:
            return None
        query, _, rest = data.decode("utf-8", "replace").partition(":")
        at, _, rest = rest.partition(":")
        statement, _, client = rest.partition(":")[2].rpartition(":")
        database, table, *partition = [*node.object_path.removeprefix(f"{self._root}/").split("/"), ""]
        return LockRow(
            id=stat.czxid,
            internal_id=1,
            txn=TxnId(0),
            database=database,
            table=table or None,
            partition="/".join(partition[:-1]) or None,
            type=_TYPES[node.mode],
            state=LockState.ACQUIRED,
            last_heartbeat=0,
            acquired_at=int(at) if at.isdigit() else stat.ctime,
            user=query.partition("_")[0],
            host=client,
            agent=query or None,
            blocked_by=None,
            statement=statement.strip() or None,
        )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        import kazoo.exceptions
        import kazoo.handlers.threading

        try:
            yield
        except (kazoo.exceptions.KazooException, kazoo.handlers.threading.KazooTimeoutError) as error:
            raise LocksUnavailable(
                f"ZooKeeper {self._hosts}: {type(error).__name__} {error}".rstrip()
                + "; check that it runs and may be written to"
            ) from error


def open_zookeeper_locks(
    hosts: str,
    *,
    namespace: str = NAMESPACE,
    session_timeout: float = SESSION_TIMEOUT_SECONDS,
    connect_timeout: float = 15.0,
    answer_timeout: float = ANSWER_TIMEOUT_SECONDS,
) -> ZooKeeperLocks:
    """Opens a session at ``hosts`` (``host:port,host:port``; ``hive.zookeeper.quorum``).

    Times are seconds.

    Raises:
        NotSupported: kazoo is not installed.
        LocksUnavailable: no server answers there.
    """
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError:
        raise NotSupported(
            "locks in ZooKeeper need kazoo; install it with `pip install 'hive-compactor[zookeeper]'`"
        ) from None
    client = KazooClient(hosts=hosts, timeout=session_timeout)
    try:
        client.start(timeout=connect_timeout)
    except KazooTimeoutError as error:
        client.stop()
        client.close()
        raise LocksUnavailable(f"ZooKeeper {hosts}: no answer within {connect_timeout:g} s") from error
    return ZooKeeperLocks(client, hosts, namespace, answer_timeout=answer_timeout)
