"""Tells who this process is in an HDFS cluster, how it logged in, and for how long. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from compactor.base.errors import StorageError
from compactor.storage.hdfs_client import HdfsClient, handed_over_token, hdfs_errors
from compactor.storage.hdfs_options import HdfsOptions, Kerberos
from compactor.storage.kerberos_errors import LogInFailed
from compactor.storage.store_options import StoreOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Tickets:
    """The tickets of ``principal``, which are good for ``seconds``."""

    principal: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    """A log-in that a cluster accepted. ``tickets`` is None if Kerberos was not used."""

    cluster: str
    user: str  #: as the cluster calls us, or the one we act for
    how: str
    tickets: Tickets | None
    keytab: str | None
    clock_ahead_s: float  #: of the cluster's NameNode, by its answer


def log_in(options: StoreOptions, authority: str, clock: Callable[[], float] = time.time) -> LogIn:
    """Logs in to a cluster and asks it who we are.

    Raises:
        StorageError: it refuses the log-in, or does not answer.
        UnnamedPlace: the configuration does not name it.
    """
    cluster = f"hdfs://{authority}"
    admitted = options.admitted("hdfs", authority)
    cluster_options = HdfsOptions.from_table(f'"{cluster}"', admitted)
    with hdfs_errors("log in to", cluster):
        client = HdfsClient(authority, admitted)
        by_token = handed_over_token(authority, cluster_options) is not None
        answer = client.ask("GETHOMEDIRECTORY", "GET", "/", redirect=True)
        tickets = None if cluster_options.kerberos is None or by_token else _tickets(cluster_options.kerberos, cluster)
    answered = parsedate_to_datetime(answer.headers["Date"]).timestamp() if "Date" in answer.headers else clock()
    return LogIn(
        cluster=cluster,
        user=str(answer.json()["Path"]).rpartition("/")[2],
        how=_how(cluster_options, by_token=by_token),
        tickets=tickets,
        keytab=cluster_options.kerberos.keytab if cluster_options.kerberos is not None else None,
        clock_ahead_s=answered - clock(),
    )


def _tickets(options: Kerberos, cluster: str) -> Tickets:
    from compactor.storage.hdfs_kerberos import read_tickets

    try:
        principal, seconds = read_tickets(options)
    except LogInFailed as error:
        raise StorageError(f"cannot log in to {cluster}: Kerberos: {error}") from error
    return Tickets(principal=principal, seconds=seconds)


def _how(options: HdfsOptions, *, by_token: bool) -> str:
    acting = f", acting for {options.session['proxy_to']}" if "proxy_to" in options.session else ""
    if by_token or "token" in options.session:
        return "by a delegation token" + (" that Hadoop handed over" if by_token else "")
    if options.kerberos is not None:
        source = f"keytab {options.kerberos.keytab}" if options.kerberos.keytab else "the ticket cache"
        return f"by Kerberos from {source}{acting}"
    if "password" in options.session:
        return f"by password{acting}"
    return f"by a name that nobody checks{acting}"
