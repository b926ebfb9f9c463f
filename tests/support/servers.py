"""Database servers of our own, in memory and on sockets that only this process's user can find, with Hive's schemas in
them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, MetaData, StaticPool, create_engine, select, text

from tests.support.downloads import MAVEN_CACHE, kept_once
from tests.support.maven import maven
from tests.support.patience import PATIENCE, until
from tests.support.ports import answers, free_port
from tests.support.server_programs import debian_program, debian_root, postgres_programs

MEMORY = Path("/dev/shm")
ARTIFACT = "org.apache.hive:hive-standalone-metastore-server:4.0.1:tar.gz:bin"
_SCRIPTS = "scripts/metastore/upgrade"
_START_SECONDS = PATIENCE


@dataclass(slots=True, kw_only=True)
class Server:
    """A server; ``url`` is that of its database ``{name}``."""

    kind: str
    folder: Path
    user: str
    url: str
    command: tuple[str, ...]
    client: tuple[str, ...]  #: command of its own client, to which the database's name is added
    stop_signal: signal.Signals  #: signal that ends it without waiting for clients
    dump_program: tuple[str, ...]  #: pg_dump or mysqldump that can read it
    port: int = 5432  #: of PostgreSQL; even without TCP it is part of the socket's name
    product: str | None = None  #: of MySQL and MariaDB, see ``mariadb``
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server and waits until it answers. It ends with us, however we end."""
        command = _as(self.user, self.command, f"--pdeathsig={self.stop_signal.name.removeprefix('SIG')}")
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            with (self.folder / "log").open("a") as log:
                self.process = subprocess.Popen(
                    command, stdout=log, stderr=log, cwd=self.folder, env=os.environ | dict(self.environment)
                )
            while time.monotonic() < deadline and self.process.poll() is None:
                if self._answers():
                    return
                time.sleep(0.05)
            time.sleep(0.1)  # remains of a killed server may be in the way for a moment
        raise AssertionError(f"{self.kind} did not start: {(self.folder / 'log').read_text()}")

    def end(self, by: signal.Signals | None = None) -> None:
        """Stops the server: orderly, or at once with SIGKILL."""
        assert self.process is not None
        self.process.send_signal(by or self.stop_signal)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def is_running(self) -> bool:
        """True until the server has ended."""
        return self.process is not None and self.process.poll() is None

    def _answers(self) -> bool:
        command = _as(self.user, [*self.client, "postgres" if self.kind == "postgresql" else "mysql"])
        asked = subprocess.run(command, input="SELECT 1;", capture_output=True, text=True, check=False)
        return asked.returncode == 0

    def sql(self, text: str, database: str) -> str:
        """Returns what the server's own client prints for ``text``."""
        done = run_as([*self.client, database], self.user, text)
        return done.stdout

    def dump(self, database: str, *options: str) -> str:
        """Returns every row of a PostgreSQL ``database``, as text; by other ``options`` of pg_dump, more than that."""
        command = [*self.dump_program, *(options or ("--data-only",))]
        command += ["-h", str(self.folder), "-p", str(self.port), "-U", "hive", database]
        return run_as(command, self.user, "").stdout

    def copy(self, database: str) -> str:
        """Returns the script that makes ``database`` again in an empty one."""
        if self.kind == "postgresql":
            return self.dump(database, "--no-owner")
        options = ["--no-defaults", f"--socket={self.folder / 's'}", "-u", "root", "--single-transaction"]
        return run_as([*self.dump_program, *options, "--no-tablespaces", database], self.user, "").stdout

    def make(self, name: str, script: str = "") -> str:
        """Creates a database, runs ``script`` in it, and returns its URL."""
        if self.kind == "postgresql":
            self.sql(f'CREATE DATABASE "{name}";', "postgres")
        else:
            self.sql(f"CREATE DATABASE `{name}` DEFAULT CHARACTER SET latin1;", "mysql")
        if script:
            self.sql(script, name)
        return self.url.format(name=name)

    def drop(self, name: str) -> None:
        """Drops a database and everything that is connected to it."""
        if self.kind == "postgresql":
            # DROP … WITH (FORCE) came with PostgreSQL 13
            clients = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'"
            self.sql(f'{clients}; DROP DATABASE IF EXISTS "{name}";', "postgres")
        else:
            self.sql(f"DROP DATABASE IF EXISTS `{name}`;", "mysql")


class Rows:
    """The rows of a database as they are now, to return to: faster than a new database for each test."""

    def __init__(self, url: str) -> None:
        # one round trip for everything, which MySQL's driver allows only on request
        args = {"client_flag": _MULTI_STATEMENTS} if url.startswith("mysql") else {}
        self._engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=StaticPool, connect_args=args)
        dialect = self._engine.dialect
        quote = dialect.identifier_preparer.quote_identifier
        metadata = MetaData()
        metadata.reflect(self._engine)
        script = [_WITHOUT_KEYS[dialect.name], *(f"DELETE FROM {quote(name)}" for name in metadata.tables)]
        with self._engine.connect() as conn:
            for table in metadata.tables.values():
                for row in conn.execute(select(table)).all():
                    values = {name: _as_literal(value, dialect.name) for name, value in row._mapping.items()}
                    again = table.insert().inline().values(values)
                    script.append(str(again.compile(dialect=dialect, compile_kwargs={"literal_binds": True})))
            script += _counters(conn)
        self._script = ";\n".join(script)

    def restore(self) -> None:
        """Removes all other rows, and resets every counter."""
        with self._engine.connect() as conn, closing(conn.connection.cursor()) as cursor:
            cursor.execute(self._script)
            while cursor.nextset():
                pass

    def close(self) -> None:
        """Closes the connections to the database."""
        self._engine.dispose()


def _as_literal(value: object, dialect: str) -> object:
    """Returns a value as SQLAlchemy can write it into a statement: it takes bytes for text."""
    if not isinstance(value, bytes):
        return value
    return text(f"decode('{value.hex()}', 'hex')" if dialect == "postgresql" else f"x'{value.hex()}'")


_MULTI_STATEMENTS = 1 << 16
_WITHOUT_KEYS = {
    "postgresql": "SET session_replication_role = replica",
    "mysql": "SET foreign_key_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",  # row 0 of TXNS stays row 0
}


def _counters(conn: Connection) -> list[str]:
    if conn.dialect.name == "postgresql":
        query = "SELECT quote_ident(sequencename), coalesce(last_value + 1, start_value) FROM pg_sequences"
        sequences = conn.exec_driver_sql(f"{query} WHERE schemaname = 'public'").all()
        # ALTER SEQUENCE would write a new file for each
        return ["SELECT " + ", ".join(f"setval('{name}', {first}, false)" for name, first in sequences)]
    found = conn.exec_driver_sql(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = DATABASE() AND extra = 'auto_increment'"
    )
    return [f"ALTER TABLE `{name}` AUTO_INCREMENT = 1" for name in found.scalars()]


def hive_schema(kind: str, version: str) -> str:
    """Returns Hive's own ``hive-schema-<version>`` for a kind of server, from its released archive."""
    name = f"hive-schema-{version}.{'postgres' if kind == 'postgresql' else kind}.sql"
    return (hive_schemas() / name).read_text(encoding="utf-8")


def hive_schemas() -> Path:
    """Returns the schemas of all versions and kinds of servers, downloaded once."""
    return kept_once(MAVEN_CACHE, f"hive-schemas-of-{ARTIFACT.split(':')[2]}", _download_schemas)


def _download_schemas(folder: Path) -> Path:
    _, artifact, version, kind, classifier = ARTIFACT.split(":")
    maven(["dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}"], folder)
    made = folder / "schemas"
    made.mkdir()
    with tarfile.open(folder / f"{artifact}-{version}-{classifier}.{kind}") as tar:
        for member in tar:
            parts = Path(member.name).parts
            wanted = _SCRIPTS in member.name and parts[-2] in ("postgres", "mysql")
            source = tar.extractfile(member) if wanted and parts[-1].startswith("hive-") else None
            if source is not None:
                (made / parts[-1]).write_bytes(source.read())
    return made


#: Servers by name. The first of each kind is the machine's own; `make test-all` unpacks the others (`server_programs`).
_POSTGRES_RELEASES = {"postgresql": None, "postgresql-12": "12.22.0", "postgresql-18": "18.1.0"}
_MYSQL_PRODUCTS = {"mysql": None, "mariadb-11.8": "mariadb", "mysql-9.7": "mysql"}
NAMES = (*_POSTGRES_RELEASES, *_MYSQL_PRODUCTS)


def start(name: str, *options: str, port: int | None = None) -> AbstractContextManager[Server]:
    """Returns the server of a name in ``NAMES``, to be entered; ``options`` are added to its command."""
    if name in _POSTGRES_RELEASES:
        return postgres(port, release=_POSTGRES_RELEASES[name], options=options)
    return mariadb(port, product=_MYSQL_PRODUCTS[name], options=options)


@contextmanager
def postgres(
    port: int | None = None,
    *,
    release: str | None = None,
    options: Sequence[str] = (),
    durable: bool = False,
    tls: tuple[bytes, bytes] | None = None,
    gss: tuple[bytes, bytes] | None = None,
) -> Iterator[Server]:
    """Yields a PostgreSQL server whose user ``hive`` needs no password.

    Without ``release`` it is the machine's own. ``options`` are added to its command.
    With ``port`` it also listens on the loopback interface, for drivers without sockets; there a password is needed. A
    ``durable`` one is on disk and waits for it at each commit, as a site's own does. With ``tls``, its key and certificate,
    that interface takes encrypted connections only, and no password; with ``gss``, its keytab and krb5.conf, Kerberos only.
    """
    user = _unprivileged("postgres")
    with folder_of(user, durable=durable) as folder:
        own = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)))
        bin = own if release is None else postgres_programs(release)
        data = folder / "data"
        run_as([str(bin / "initdb"), "-D", str(data), "-U", "hive", "-A", "trust", "-E", "UTF8", "-N"], user, "")
        access = (
            "local all,replication hive trust\nlocal all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )
        if tls is not None:
            access = "local all hive trust\nhostssl all hive 127.0.0.1/32 trust\n"
        environment: dict[str, str] = {}
        if gss is not None:
            access = "local all hive trust\nhost all all 127.0.0.1/32 gss include_realm=0\n"
            _owned(folder / "server.keytab", gss[0], user)
            environment["KRB5_CONFIG"] = str(_owned(folder / "krb5.conf", gss[1], user))
        (data / "pg_hba.conf").write_text(access)
        settings = {
            "listen_addresses": "" if port is None else "127.0.0.1",
            "port": str(port or 5432),
            "unix_socket_directories": str(folder),
            "fsync": "on" if durable else "off",
            "full_page_writes": "on" if durable else "off",
            "shared_buffers": "32MB",
            "max_connections": "200",
            "deadlock_timeout": "100ms",
            "dynamic_shared_memory_type": "mmap",  # in the folder, so that it is removed with it
        } | (_encrypted(folder, user, *tls) if tls is not None else {})
        settings |= {"krb_server_keyfile": str(folder / "server.keytab")} if gss is not None else {}
        command = [str(bin / "postgres"), "-D", str(data)]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        client = [str(own / "psql"), "-h", str(folder), "-p", str(port or 5432), "-U", "hive"]
        server = Server(
            kind="postgresql",
            folder=folder,
            user=user,
            url=f"postgresql+psycopg://hive@/{{name}}?host={folder}&port={port or 5432}",
            command=(*command, *options),
            client=(*client, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"),
            # the machine's own cannot read a later release, and 12 cannot read what that of 18 writes
            dump_program=debian_program("postgresql-client-18", "pg_dump")
            if release is not None and release.startswith("18")
            else (str(own / "pg_dump"),),
            stop_signal=signal.SIGINT,
            port=port or 5432,
            environment=environment,
        )
        with running(server):
            yield server


def _encrypted(folder: Path, user: str, key: bytes, certificate: bytes) -> dict[str, str]:
    """Returns PostgreSQL's options for TLS with this key and certificate."""
    paths = {"ssl_key_file": folder / "server.key", "ssl_cert_file": folder / "server.crt"}
    for path, content in zip(paths.values(), (key, certificate), strict=True):
        _owned(path, content, user)
    return {"ssl": "on", **{name: str(path) for name, path in paths.items()}}


def _owned(path: Path, content: bytes, user: str) -> Path:
    """Writes a file that ``user`` alone can read, else a server refuses a key in it."""
    path.write_bytes(content)
    path.chmod(0o600)
    if os.geteuid() == 0:
        shutil.chown(path, user, user)
    return path


@contextmanager
def mariadb(
    port: int | None = None, *, product: str | None = None, options: Sequence[str] = (), durable: bool = False
) -> Iterator[Server]:
    """Yields a MariaDB server whose user ``root`` needs no password.

    Without ``product`` it is the machine's own; ``mariadb`` and ``mysql`` are those of newer Debians. For the other
    arguments see ``postgres``; with ``port``, users need the host ``127.0.0.1``.
    """
    user = _unprivileged("mysql" if product is None else "postgres")
    with folder_of(user, durable=durable) as folder:
        data, temporary = folder / "data", folder / "tmp"
        run_as(["mkdir", str(temporary)], user, "")
        common = ["--no-defaults", f"--datadir={data}", f"--tmpdir={temporary}"]
        if product is None:
            program: tuple[str, ...] = ("mariadbd",)
            run_as(["mariadb-install-db", *common, *_LOG_IN, "--skip-test-db"], user, "")
        else:
            program = debian_program(product, "mysqld" if product == "mysql" else "mariadbd")
            common += _places(product)
            _install_tables(product, [*program, *common], data, user)
        settings = [
            f"--socket={folder / 's'}",
            *([f"--port={port}", "--bind-address=127.0.0.1"] if port else ["--skip-networking"]),
            f"--innodb-flush-log-at-trx-commit={1 if durable else 2}",
            f"--innodb-doublewrite={1 if durable else 0}",
            "--innodb-buffer-pool-size=64M",
            "--innodb-redo-log-capacity=32M" if product == "mysql" else "--innodb-log-file-size=16M",
            "--skip-log-bin",
            "--max-connections=200",
            f"--pid-file={folder / 'pid'}",
            *(["--mysqlx=OFF"] if product == "mysql" else []),
        ]
        client = ("mariadb",) if product is None else debian_program(product, product)
        server = Server(
            kind="mysql",
            folder=folder,
            user=user,
            url=f"mysql+pymysql://root@localhost/{{name}}?unix_socket={folder / 's'}",
            command=(*program, *common, *settings, *options),
            client=(*client, "--no-defaults", f"--socket={folder / 's'}", "-u", "root", "-N", "-B"),
            dump_program=debian_program("mysql", "mysqldump") if product == "mysql" else ("mariadb-dump",),
            stop_signal=signal.SIGTERM,
            port=port or 3306,
            product=product,
        )
        with running(server):
            yield server


_LOG_IN = ("--auth-root-authentication-method=normal",)


def _places(product: str) -> list[str]:
    """Returns the options with which an unpacked server finds its own files."""
    root = debian_root(product) / "usr"
    messages, plugins = root / "share" / product, root / "lib/mysql/plugin"
    return [f"--basedir={root}", f"--lc-messages-dir={messages}", f"--plugin-dir={plugins}", "--secure-file-priv="]


def _install_tables(product: str, command: Sequence[str], data: Path, user: str) -> None:
    """Creates the server's own tables, and ``root`` without a password."""
    if product == "mysql":
        run_as([*command, "--initialize-insecure"], user, "")
        return
    # mariadb-install-db does this with programs that it expects to be installed
    run_as(["mkdir", str(data)], user, "")
    script = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL, @skip_auth_anonymous = 1;\n"
    for name in ("system_tables", "performance_tables", "system_tables_data"):
        script += (debian_root(product) / f"usr/share/mariadb/mariadb_{name}.sql").read_text("utf-8")
    run_as([*command, "--bootstrap", "--skip-grant-tables", "--innodb-log-file-size=16M"], user, script)


_POOLER = """[databases]
* = host={host} port={server_port} user=hive pool_size=4
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
max_client_conn = 200
logfile = {folder}/log
{settings}
"""


@contextmanager
def pgbouncer(server: Server, host: str | None = None, port: int | None = None, **settings: object) -> Iterator[str]:
    """Yields the URL, with ``{name}`` for a database, of a PgBouncer on loopback in front of a PostgreSQL ``server``.

    With ``host`` and ``port`` it connects there, for example to an address whose server changes.
    """
    own_port = free_port()
    with folder_of(server.user, durable=False) as folder:
        lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
        at = {"host": host or server.folder, "server_port": port or server.port}
        text = _POOLER.format(**at, port=own_port, folder=folder, settings=lines)
        path = _owned(folder / "ini", text.encode(), server.user)
        command = _as(server.user, [*debian_program("pgbouncer", "pgbouncer"), "-q", str(path)], "--pdeathsig=INT")
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=folder)
        try:
            until("PgBouncer", lambda: answers(own_port) or process.poll() is not None)
            assert process.poll() is None, (folder / "log").read_text()
            yield f"postgresql+psycopg://hive@127.0.0.1:{own_port}/{{name}}"
        finally:
            process.kill()
            process.wait()


@contextmanager
def running(server: Server) -> Iterator[None]:
    """Starts a server and stops it."""
    try:
        server.start()
        yield
    finally:
        server.end()


def run_as(command: Sequence[str], user: str, text: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(_as(user, command), input=text, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        raise AssertionError(f"{command[0]} failed: {done.stderr[-2000:]}")
    return done


def _unprivileged(user: str) -> str:
    """Returns the user that runs a server: it refuses root, and only root can become somebody else."""
    return user if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


def _as(user: str, command: Sequence[str], *options: str) -> list[str]:
    become = [f"--reuid={user}", f"--regid={user}", "--init-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *become, *options, "--", *command] if become or options else list(command)


@contextmanager
def folder_of(user: str, *, durable: bool) -> Iterator[Path]:
    """Yields a folder of ``user``'s; short, since it is part of a socket's name. In memory where possible and permitted."""
    parent = MEMORY if not durable and os.access(MEMORY, os.W_OK) else Path("/var/tmp")
    folder = Path(tempfile.mkdtemp(prefix="cs-", dir=parent))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, user, user)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
