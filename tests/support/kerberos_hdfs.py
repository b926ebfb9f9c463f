"""A NameNode and a DataNode that take nobody without a ticket, over HTTP and HTTPS."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from compactor.storage.hdfs import HdfsStorage
from compactor.storage.store_options import StoreOptions
from tests.support.certificates import Authority
from tests.support.daemons import Daemon
from tests.support.hadoop import hadoop_jars, java_command, write_site
from tests.support.kerberos import REALM, Kdc
from tests.support.ports import free_port

_SERVER = "org.apache.hadoop.hdfs.server"
_STORE_PASSWORD = "of nobody"
#: Principals of the daemons, and of those who come to them. No user of the machine stands behind them.
_DAEMONS = ("nn/localhost", "dn/localhost", "HTTP/localhost")
_GROUPS = "hdfs=supergroup;compactor=hadoop;hive=hadoop;short=hadoop;stranger=others"
SHORT_NAMES = f"RULE:[2:$1@$0](nn@{REALM})s/.*/hdfs/ RULE:[2:$1@$0](dn@{REALM})s/.*/hdfs/ DEFAULT"
_PORTS = ("rpc", "http", "https", "data", "data_http", "data_https", "data_ipc")
#: A token is renewed for so long, and lives for so long at most.
TOKEN_RENEWAL_S, TOKEN_LIFE_S = 20, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureHdfs:
    """``compactor`` is an ordinary user, who owns ``location`` and may act for members of the group ``hadoop``."""

    kdc: Kdc
    folder: Path
    authority: str
    url: str
    https_url: str
    ca: Path
    daemons: list[Daemon] = field(default_factory=list)

    @property
    def location(self) -> str:
        return f"hdfs://{self.authority}/t"

    def curl(self, principal: str, operation: str, *, method: str = "GET") -> str:
        """Returns the answer to an operation, given as path and query, asked with a fresh ticket of ``principal``."""
        return self.ask(principal, f"{self.url}{operation}", "-X", method)

    def ask(self, principal: str, url: str, *options: str) -> str:
        """Returns what any server of the realm answers to curl with a fresh ticket of ``principal``."""
        cache = self.folder / f"curl-{principal.replace('/', '-')}"
        environment = os.environ | self.kdc.ticket(principal, cache)
        command = ["curl", "-sS", "--negotiate", "-u", ":", *options, url]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    def changes(self) -> str:
        """Returns the number of the NameNode's last transaction: whatever changes in the cluster has one."""
        said = self.curl("nn/localhost", "/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo")
        return str(json.loads(said)["beans"][0]["JournalTransactionInfo"])

    def fetch_tokens(self, principal: str, file: Path) -> None:
        """Has Hadoop's own client fetch a token of ``principal`` for itself into ``file``."""
        cache = self.folder / f"fetch-{principal}"
        environment = os.environ | self.kdc.ticket(principal, cache) | {"KRB5CCNAME": str(cache)}
        fetcher = "org.apache.hadoop.hdfs.tools.DelegationTokenFetcher"
        java = java_command(f"-Djava.security.krb5.conf={self.kdc.config}")
        command = [*java, "-cp", f"{self.folder}:{hadoop_jars()}/*", fetcher, "--renewer", principal, file.as_uri()]
        subprocess.run(command, check=True, capture_output=True, env=environment)


@contextmanager
def secure_hdfs(
    folder: Path, kdc: Kdc, token_seconds: tuple[int, int] = (TOKEN_RENEWAL_S, TOKEN_LIFE_S)
) -> Iterator[SecureHdfs]:
    """Yields a cluster with its files in ``folder``; makes the principals of its daemons and users.

    Args:
        token_seconds: for how long a token is renewed, and for how long it lives.
    """
    for principal in (*_DAEMONS, "compactor", "hive", "stranger"):
        kdc.add(principal)
    kdc.add("short", "-maxlife", "1min", "-maxrenewlife", "0")
    ports = dict(
        zip(("rpc", "http", "https", "data", "data_http", "data_https", "data_ipc"), iter(free_port, 0), strict=False)
    )
    ca = _keystores(folder)
    values = _site(folder, kdc, ports)
    for name, seconds in zip(("renew-interval", "max-lifetime"), token_seconds, strict=True):
        values[f"dfs.namenode.delegation.token.{name}"] = str(seconds * 1000)
    for name in ("core-site.xml", "hdfs-site.xml"):
        write_site(folder / name, values)
    for application in ("hdfs", "datanode"):
        (folder / "webapps" / application).mkdir(parents=True)
    (folder / "secret").write_text("of nobody", "utf-8")
    java = [*java_command(f"-Djava.security.krb5.conf={kdc.config}"), "-cp", f"{folder}:{hadoop_jars()}/*"]
    format_it = [*java, f"{_SERVER}.namenode.NameNode", "-format", "-nonInteractive"]
    subprocess.run(format_it, check=True, capture_output=True, cwd=folder)
    found = SecureHdfs(
        kdc=kdc,
        folder=folder,
        authority=f"localhost:{ports['rpc']}",
        url=f"http://localhost:{ports['http']}",
        https_url=f"https://localhost:{ports['https']}",
        ca=ca,
    )
    try:
        for name in ("NameNode", "DataNode"):
            daemon = Daemon(name=name, folder=folder, command=[*java, f"{_SERVER}.{name.lower()}.{name}"])
            daemon.start()
            found.daemons.append(daemon)
        found.daemons[-1].until(lambda: _has_data_node(found))
        _make_tables(found)
        yield found
    finally:
        for daemon in found.daemons:
            daemon.end()


def _has_data_node(cluster: SecureHdfs) -> bool:
    try:
        said = cluster.curl("nn/localhost", "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")
    except subprocess.CalledProcessError:
        return False
    return '"NumLiveDataNodes" : 1' in said


def _make_tables(cluster: SecureHdfs) -> None:
    for operation in ("MKDIRS&permission=755", "SETOWNER&owner=compactor&group=hadoop"):
        said = cluster.curl("nn/localhost", f"/webhdfs/v1/t?op={operation}", method="PUT")
        assert "Exception" not in said, said


def _site(folder: Path, kdc: Kdc, ports: Mapping[str, int]) -> dict[str, str]:
    def keytab(principal: str) -> str:
        return str(kdc.keytab(principal))

    return {
        "fs.defaultFS": f"hdfs://localhost:{ports['rpc']}",
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.security.token.service.use_ip": "false",
        "hadoop.security.auth_to_local": SHORT_NAMES,
        "hadoop.user.group.static.mapping.overrides": _GROUPS,
        "hadoop.proxyuser.compactor.hosts": "*",
        "hadoop.proxyuser.compactor.groups": "hadoop",
        "hadoop.proxyuser.httpfs.hosts": "*",
        "hadoop.proxyuser.httpfs.groups": "*",
        # without these a NameNode of Kerberos believes `user.name=hdfs`
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "hadoop.http.authentication.kerberos.keytab": keytab("HTTP/localhost"),
        "hadoop.http.authentication.signature.secret.file": str(folder / "secret"),
        "hadoop.http.authentication.token.validity": "15",  # seconds, so that a session outlives its cookie
        "dfs.http.policy": "HTTP_AND_HTTPS",
        "dfs.namenode.rpc-address": f"localhost:{ports['rpc']}",
        "dfs.namenode.http-address": f"localhost:{ports['http']}",
        "dfs.namenode.https-address": f"localhost:{ports['https']}",
        "dfs.namenode.name.dir": (folder / "name").as_uri(),
        "dfs.namenode.acls.enabled": "true",
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.kerberos.principal": f"nn/localhost@{REALM}",
        "dfs.namenode.keytab.file": keytab("nn/localhost"),
        "dfs.datanode.data.dir": (folder / "data").as_uri(),
        "dfs.datanode.address": f"localhost:{ports['data']}",
        "dfs.datanode.http.address": f"localhost:{ports['data_http']}",
        "dfs.datanode.https.address": f"localhost:{ports['data_https']}",
        "dfs.datanode.ipc.address": f"localhost:{ports['data_ipc']}",
        "dfs.datanode.hostname": "localhost",
        "dfs.datanode.kerberos.principal": f"dn/localhost@{REALM}",
        "dfs.datanode.keytab.file": keytab("dn/localhost"),
        "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "dfs.web.authentication.kerberos.keytab": keytab("HTTP/localhost"),
        "dfs.block.access.token.enable": "true",
        "dfs.data.transfer.protection": "authentication",
        "dfs.replication": "1",
        "dfs.heartbeat.interval": "1",
        "ignore.secure.ports.for.testing": "true",
    }


def _keystores(folder: Path) -> Path:
    """Writes a server's key and what Java trusts; returns the authority's certificate, as Python takes it."""
    authority = Authority()
    (folder / "server.p12").write_bytes(authority.keystore("localhost", _STORE_PASSWORD))
    (folder / "trust.p12").write_bytes(authority.truststore(_STORE_PASSWORD))
    trusted = {
        "truststore.location": folder / "trust.p12",
        "truststore.password": _STORE_PASSWORD,
        "truststore.type": "pkcs12",
    }
    keys = {
        "keystore.location": folder / "server.p12",
        "keystore.password": _STORE_PASSWORD,
        "keystore.keypassword": _STORE_PASSWORD,
        "keystore.type": "pkcs12",
    }
    write_site(folder / "ssl-server.xml", {f"ssl.server.{key}": str(value) for key, value in (trusted | keys).items()})
    write_site(folder / "ssl-client.xml", {f"ssl.client.{key}": str(value) for key, value in trusted.items()})
    (folder / "ca.pem").write_bytes(authority.pem)
    return folder / "ca.pem"


def reached(cluster: SecureHdfs, **options: object) -> HdfsStorage:
    """Returns the product's way to the cluster, as ``compactor`` by keytab; an option that is None is left out."""
    return HdfsStorage(options_of(cluster, **options))


def options_of(cluster: SecureHdfs, **options: object) -> StoreOptions:
    """Returns what a site writes into ``[storage.hdfs]``."""
    given = {
        "url": cluster.url,
        "kerberos": True,
        "principal": f"compactor@{REALM}",
        "keytab": str(cluster.kdc.keytab("compactor")),
        "timeout": 120,
        **options,
    }
    return StoreOptions.from_tables({"hdfs": {name: value for name, value in given.items() if value is not None}})
