"""Database servers that replicate: replicas that take over, and several primaries at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pymysql
from pymysql.cursors import DictCursor

from tests.support.patience import PATIENCE, until
from tests.support.ports import free_port
from tests.support.servers import Server, folder_of, mariadb, run_as, running

_REPLICATOR = "replicator"
_PATIENT_MS = 86_400_000  #: a primary that waits less goes on alone, and a failover loses what it committed then


def replicating(product: str | None) -> Sequence[str]:
    """Returns the options of a MySQL or MariaDB server that replicates, or is replicated."""
    number = free_port()
    options = ["--log-bin=binlog", "--relay-log=relay", f"--server-id={number}", "--binlog-format=ROW"]
    if product == "mysql":
        plugins = [f"--plugin-load-add=semisync_{part}.so" for part in ("source", "replica")]
        return [*options, *plugins, "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
    return [*options, "--log-slave-updates", "--gtid-strict-mode=ON"]


@contextmanager
def replica_of(primary: Server) -> Iterator[Server]:
    """Yields a replica that accepts no writes. From then on it has whatever ``primary`` says is committed."""
    with (_standby if primary.kind == "postgresql" else _read_only_copy)(primary) as replica:
        yield replica


@contextmanager
def _standby(primary: Server) -> Iterator[Server]:
    """Yields a standby of the machine's own PostgreSQL."""
    with folder_of(primary.user, durable=False) as folder:
        backup = str(Path(primary.command[0]).with_name("pg_basebackup"))
        source = ["-h", str(primary.folder), "-p", str(primary.port), "-U", "hive"]
        run_as([backup, *source, "-D", str(folder / "data"), "-R", "-X", "stream", "-c", "fast"], primary.user, "")
        at = (str(primary.folder), str(folder))
        standby = replace(
            primary,
            folder=folder,
            url=primary.url.replace(*at),
            command=tuple(part.replace(*at) for part in primary.command),
            client=tuple(part.replace(*at) for part in primary.client),
            process=None,
        )
        with running(standby):
            primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*';", "postgres")
            primary.sql("SELECT pg_reload_conf();", "postgres")
            state = "SELECT sync_state FROM pg_stat_replication;"
            until("a synchronous standby", lambda: primary.sql(state, "postgres").strip() == "sync")
            yield standby


@contextmanager
def _read_only_copy(primary: Server) -> Iterator[Server]:
    """Yields a MySQL or MariaDB server that has replayed everything, and acknowledges each commit before its client hears.

    The primary has to run with ``replicating`` and a port.
    """
    product = primary.product
    is_mysql = product == "mysql"
    with mariadb(free_port(), product=product, options=replicating(product)) as copy:
        if not primary.sql(f"SELECT 1 FROM mysql.user WHERE user = '{_REPLICATOR}';", "mysql"):
            account = f"{_REPLICATOR}@'127.0.0.1'"
            primary.sql(
                f"CREATE USER {account} IDENTIFIED BY 'x'; GRANT REPLICATION SLAVE ON *.* TO {account};", "mysql"
            )
        at = {"HOST": "'127.0.0.1'", "PORT": primary.port, "USER": f"'{_REPLICATOR}'", "PASSWORD": "'x'"}
        if is_mysql:
            source = ", ".join(f"SOURCE_{name} = {value}" for name, value in at.items())
            script = f"CHANGE REPLICATION SOURCE TO {source}, SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1"
            script = f"SET GLOBAL super_read_only = 1, rpl_semi_sync_replica_enabled = 1; {script}; START REPLICA;"
            primary.sql(
                f"SET GLOBAL rpl_semi_sync_source_timeout = {_PATIENT_MS}, rpl_semi_sync_source_enabled = 1;", "mysql"
            )
        else:
            source = ", ".join(f"MASTER_{name} = {value}" for name, value in at.items())
            script = f"CHANGE MASTER TO {source}, MASTER_USE_GTID = slave_pos; START SLAVE;"
            script = f"SET GLOBAL read_only = 1, rpl_semi_sync_slave_enabled = 1; {script}"
            primary.sql(
                f"SET GLOBAL rpl_semi_sync_master_timeout = {_PATIENT_MS}, rpl_semi_sync_master_wait_point = AFTER_SYNC,"
                " rpl_semi_sync_master_enabled = 1;",
                "mysql",
            )
        copy.sql(script, "mysql")
        clients = f"SHOW STATUS LIKE 'Rpl_semi_sync_{'source' if is_mysql else 'master'}_clients';"
        until("a replica that acknowledges", lambda: primary.sql(clients, "mysql").split()[-1] == "1")
        yield copy


def switch_over(primary: Server, replica: Server) -> None:
    """Lets ``primary`` end its work and ``replica`` take over, as an administrator does by day.

    PostgreSQL ends its connections. MySQL and MariaDB keep them, and refuse writes.
    """
    if primary.kind == "postgresql":
        primary.end()
        return _promote(replica, "")
    if primary.product == "mysql":
        primary.sql("SET GLOBAL super_read_only = 1;", "mysql")
        return _promote(replica, primary.sql("SELECT @@gtid_executed;", "mysql").replace("\\n", ""))
    primary.sql("SET GLOBAL read_only = 1;", "mysql")
    return _promote(replica, primary.sql("SELECT @@gtid_binlog_pos;", "mysql"))


def fail_over(primary: Server, replica: Server) -> None:
    """Kills ``primary`` in the middle of its work, and lets ``replica`` take over."""
    primary.end(signal.SIGKILL)
    if primary.kind == "postgresql":
        return _promote(replica, "")
    replica.sql("STOP REPLICA IO_THREAD;", "mysql")
    socket = str(replica.folder / "s")
    with (
        closing(pymysql.connect(user="root", unix_socket=socket, cursorclass=DictCursor)) as conn,
        conn.cursor() as cursor,
    ):
        cursor.execute("SHOW REPLICA STATUS")
        (status,) = cursor.fetchall()
    return _promote(replica, str(status["Retrieved_Gtid_Set" if primary.product == "mysql" else "Gtid_IO_Pos"]))


def _promote(replica: Server, position: str) -> None:
    """Lets a replica accept writes once it has replayed everything up to ``position``, the identifiers of transactions."""
    if replica.kind == "postgresql":
        replica.sql("SELECT pg_promote();", "postgres")
        return
    function = "WAIT_FOR_EXECUTED_GTID_SET" if replica.product == "mysql" else "MASTER_GTID_WAIT"
    position = "".join(position.split())
    assert replica.sql(f"SELECT {function}('{position}', {PATIENCE});", "mysql").strip() == "0"
    name = "super_read_only = 0, read_only" if replica.product == "mysql" else "read_only"
    replica.sql(f"STOP REPLICA; RESET REPLICA ALL; SET GLOBAL {name} = 0;", "mysql")


@contextmanager
def several_primaries(product: str | None) -> Iterator[tuple[Server, Server]]:
    """Yields two servers, each of which accepts writes and has those of the other: group replication, or Galera."""
    talks = [free_port() for _ in range(2)]
    options = _in_group if product == "mysql" else _in_cluster
    with ExitStack() as stack:
        members: list[Server] = []
        for talk in talks:
            port = free_port()
            every = [*replicating(product), *options(talks, talk)]
            member = stack.enter_context(mariadb(port, product=product, options=every))
            if product == "mysql":
                member.sql(_JOIN.format(is_first=int(not members)), "mysql")
            members.append(member)
        until("two primaries", lambda: all(_count_members(member) == 2 for member in members))
        yield members[0], members[1]


def _in_group(talks: Sequence[int], talk: int) -> Sequence[str]:
    settings = {
        "group-name": "6f0c2f0e-1d1c-4b0a-9a35-2f3f5f3b9d10",
        "start-on-boot": "OFF",
        "local-address": f"127.0.0.1:{talk}",
        "group-seeds": ",".join(f"127.0.0.1:{port}" for port in talks),
        "ip-allowlist": "127.0.0.1",
        "recovery-get-public-key": "ON",
        "single-primary-mode": "OFF",
        "enforce-update-everywhere-checks": "ON",
    }
    options = [f"--loose-group-replication-{name}={value}" for name, value in settings.items()]
    # a group refuses writes to tables without a primary key, and Hive has some
    keys = "--sql-generate-invisible-primary-key=ON"
    return ["--plugin-load-add=group_replication.so", "--report-host=127.0.0.1", keys, *options]


#: Each member has the account before it joins: what it has of its own would not be in the group's history.
_JOIN = f"""SET sql_log_bin = 0;
CREATE USER {_REPLICATOR}@'127.0.0.1' IDENTIFIED BY 'x';
GRANT REPLICATION SLAVE, BACKUP_ADMIN ON *.* TO {_REPLICATOR}@'127.0.0.1';
SET sql_log_bin = 1;
CHANGE REPLICATION SOURCE TO SOURCE_USER = '{_REPLICATOR}', SOURCE_PASSWORD = 'x' FOR CHANNEL 'group_replication_recovery';
SET GLOBAL group_replication_bootstrap_group = {{is_first}};
START GROUP_REPLICATION;
SET GLOBAL group_replication_bootstrap_group = 0;"""


def _in_cluster(talks: Sequence[int], talk: int) -> Sequence[str]:
    others = "" if talk == talks[0] else f"127.0.0.1:{talks[0]}"
    listens = f"gmcast.listen_addr=tcp://127.0.0.1:{talk};ist.recv_addr=127.0.0.1:{free_port()}"
    settings = {
        "on": "ON",
        "provider": "/usr/lib/galera/libgalera_smm.so",
        "provider-options": listens,
        "cluster-address": f"gcomm://{others}",
        "node-address": "127.0.0.1",
        "sst-method": "rsync",
        "sst-receive-address": f"127.0.0.1:{free_port()}",
    }
    return ["--innodb-autoinc-lock-mode=2", *(f"--wsrep-{name}={value}" for name, value in settings.items())]


def _count_members(member: Server) -> int:
    if member.product == "mysql":
        table = "performance_schema.replication_group_members"
        return int(member.sql(f"SELECT COUNT(*) FROM {table} WHERE member_state = 'ONLINE';", "mysql"))
    return int(member.sql("SHOW STATUS LIKE 'wsrep_cluster_size';", "mysql").split()[-1])
