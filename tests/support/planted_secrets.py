"""A site with a secret, which is marked, in every place from which settings come."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from xml.sax.saxutils import escape

MARK = "M4rk-"  #: each secret begins with it
_NUMBERS = iter(range(1000))


def _secret(where: str) -> str:
    return f"{MARK}{next(_NUMBERS):02}-{where}"


#: Of the application: what a site writes into compactor.toml below ``compactor.spark.``
SPARK = {
    "hadoop.fs.s3a.secret.key": _secret("s3"),
    "hadoop.fs.s3a.access.key": _secret("s3-id"),
    "hadoop.fs.s3a.session.token": _secret("s3-token"),
    "hadoop.fs.azure.account.key.acct.dfs.core.windows.net": _secret("azure"),
    "hadoop.fs.azure.account.oauth2.client.secret": _secret("oauth"),
    "hadoop.fs.gs.auth.service.account.private.key": _secret("gs"),
    "hadoop.security.credential.provider.path": f"jceks://ann:{_secret('jceks')}@hdfs@nn/store.jceks",
    "hadoop.javax.jdo.option.ConnectionURL": f"jdbc:mysql://db/m?password={_secret('jdbc')}&a=b",
    "authenticate.secret": _secret("authenticate"),
    "ssl.keyPassword": _secret("ssl-key"),
    "ssl.historyServer.keyStorePassword": _secret("ssl-store"),
    "executorEnv.PGPASSWORD": _secret("executors"),
    "yarn.appMasterEnv.COMPACTOR_METASTORE_URL": f"postgresql://hive:{_secret('master')}@db/m",
}
STORAGE = {
    "s3": {"secret": _secret("s3fs"), "token": _secret("s3fs-token")},
    "abfs": {
        "account_key": _secret("adlfs"),
        "sas_token": _secret("sas"),
        "connection_string": f"AccountName=acct;AccountKey={_secret('connection')};EndpointSuffix=x",
    },
}
#: The metastore ``away``, whose database does not answer.
AWAY = {
    "url": f"postgresql+psycopg://hive:{_secret('url')}@127.0.0.1:1/hive?connect_timeout=1",
    "state_url": f"mysql+pymysql://hive:{_secret('state')}@127.0.0.1:1/state",
}
HIVE_SITE = {
    "javax.jdo.option.ConnectionPassword": _secret("jdo"),
    "fs.s3a.secret.key": _secret("core-site"),
    "hive.server2.keystore.password": _secret("keystore"),
    "hive.metastore.warehouse.external.dir": f"s3a://KEY:{_secret('external')}@bucket/external",
}
ENVIRONMENT = {
    "COMPACTOR_METASTORE_PASSWORD": _secret("environment"),
    "HADOOP_CREDSTORE_PASSWORD": _secret("credstore"),
    "AWS_SECRET_ACCESS_KEY": _secret("aws"),
}
TABLE_PROPERTIES = {
    "compactor.spark.hadoop.fs.s3a.secret.key": _secret("table"),
    "compactor.hive.compactor.worker.threads": f"password={_secret('value')}",
    "my.password": _secret("property"),
}
DATABASE_PROPERTIES = {"compactor.spark.ssl.keyPassword": _secret("database")}
REQUEST_PROPERTIES = {"compactor.spark.authenticate.secret": _secret("request")}
LOCATION_SECRET = _secret("location")
READS_TOKEN = _secret("reads")
CONNECTION_SECRET = _secret("airflow")
PLANTED = next(_NUMBERS)  #: their number


def write_site(folder: Path, url: str, warehouse: Path, *, away: bool = False) -> Path:
    """Writes compactor.toml, hive-site.xml and a token into ``folder`` and returns the path of the first. With a metastore
    ``away`` nothing is compacted, since it cannot say whether its tables lie there, too."""
    (folder / "token").write_text(READS_TOKEN)
    (folder / "token").chmod(0o600)
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in HIVE_SITE.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    lines = [
        "[metastore.default]",
        f'url = "{url}"',
        f'warehouse = "{warehouse}"',
        f'hive_conf = "{folder}"',
        'mode = "clean"',
        "[metastore.default.settings]",
        f'"compactor.reads.token.file" = "{folder / "token"}"',
        *(f'"compactor.spark.{key}" = "{value}"' for key, value in SPARK.items()),
        '"compactor.spark.executor.memory" = "700m"',
    ]
    if away:
        lines += ["[metastore.away]", *(f'{key} = "{value}"' for key, value in AWAY.items())]
    for kind, options in STORAGE.items():
        lines += [f"[storage.{kind}]", *(f'{key} = "{value}"' for key, value in options.items())]
    config = folder / "compactor.toml"
    config.write_text("\n".join(lines))
    for path in (config, folder / "hive-site.xml"):
        path.chmod(0o600)
    return config


def files_with_a_mark(folder: Path, but: tuple[str, ...]) -> dict[str, str]:
    """Returns the files below ``folder`` that hold a secret, each with what is around the first one.

    Others may remove files and directories meanwhile, as Spark removes what it staged.
    """
    found = {}
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names if name not in but):
            with suppress(FileNotFoundError):
                before, mark, after = path.read_bytes().partition(MARK.encode()) if path.is_file() else (b"", b"", b"")
                if mark:
                    found[str(path)] = f"{before[-100:]!r}{after[:30]!r}"
    return found


@contextmanager
def watching_processes() -> Iterator[set[str]]:
    """Yields the command lines of all processes of the machine, which are looked at until the block ends."""
    seen: set[str] = set()
    is_over = Event()

    def watch() -> None:
        while not is_over.wait(0.1):
            for process in os.listdir("/proc"):
                if process.isdigit():
                    try:
                        line = Path("/proc", process, "cmdline").read_bytes()
                    except OSError:
                        continue
                    seen.add(line.replace(b"\0", b" ").decode("utf-8", "replace"))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()
