"""An HttpFS that takes nobody without a ticket, in front of a NameNode that does the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.daemons import HTTPFS_PLACES, HTTPFS_SERVER, Daemon
from tests.support.hadoop import hadoop_jars, java_command, write_site
from tests.support.kerberos import REALM
from tests.support.kerberos_hdfs import SHORT_NAMES, SecureHdfs
from tests.support.ports import answers, free_port


@contextmanager
def secure_httpfs(home: Path, cluster: SecureHdfs) -> Iterator[str]:
    """Yields the address of an HttpFS; towards the NameNode it is ``httpfs``, and acts for whoever comes to it."""
    port, kdc = free_port(), cluster.kdc
    own = kdc.add("httpfs")
    for name in ("conf", "log", "temp"):
        (home / name).mkdir(parents=True)
    (home / "secret").write_text("of nobody", "utf-8")
    log_in = {
        "type": "kerberos",
        "kerberos.principal": f"HTTP/localhost@{REALM}",
        "kerberos.keytab": str(kdc.keytab("HTTP/localhost")),
        "signature.secret.file": str(home / "secret"),
    }
    write_site(
        home / "conf" / "httpfs-site.xml",
        {f"hadoop.http.authentication.{name}": value for name, value in log_in.items()}
        | {f"httpfs.authentication.{name}": value for name, value in log_in.items()}
        | {
            "httpfs.http.hostname": "localhost",
            "httpfs.http.port": str(port),
            "httpfs.hadoop.authentication.type": "kerberos",
            "httpfs.hadoop.authentication.kerberos.principal": f"httpfs@{REALM}",
            "httpfs.hadoop.authentication.kerberos.keytab": str(own),
            "httpfs.proxyuser.compactor.hosts": "*",
            "httpfs.proxyuser.compactor.groups": "*",
        },
    )
    write_site(
        home / "conf" / "core-site.xml",
        {
            "fs.defaultFS": f"hdfs://{cluster.authority}",
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.token.service.use_ip": "false",
            "hadoop.security.auth_to_local": SHORT_NAMES,
            "dfs.namenode.kerberos.principal": f"nn/localhost@{REALM}",
            "dfs.data.transfer.protection": "authentication",
        },
    )
    places = [f"-Dhttpfs.{name}.dir={home / folder}" for name, folder in HTTPFS_PLACES.items()]
    java = java_command(f"-Djava.security.krb5.conf={kdc.config}")
    command = [*java, *places, "-cp", f"{home / 'conf'}:{hadoop_jars()}/*", HTTPFS_SERVER]
    with Daemon(name="httpfs", folder=home, command=command).running(lambda: answers(port)):
        yield f"http://localhost:{port}"
