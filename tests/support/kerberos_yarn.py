"""A YARN that takes nobody without a ticket, over a NameNode that does the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

from tests.support.kerberos import REALM
from tests.support.kerberos_hdfs import SHORT_NAMES, SecureHdfs
from tests.support.yarn import Yarn, yarn

_DAEMONS = {"resourcemanager": "rm/localhost", "nodemanager": "nm/localhost"}


def java_options(cluster: SecureHdfs) -> str:
    """Returns the option by which a JVM finds the KDC; a site has /etc/krb5.conf."""
    return f"-Djava.security.krb5.conf={cluster.kdc.config}"


@contextmanager
def secure_yarn(folder: Path, cluster: SecureHdfs) -> Iterator[Yarn]:
    """Yields a cluster whose daemons have tickets; containers run as this process's user, as there is no other."""
    values = {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.security.token.service.use_ip": "false",
        "hadoop.security.auth_to_local": SHORT_NAMES,
        "hadoop.user.group.static.mapping.overrides": "compactor=hadoop;rm=hadoop;nm=hadoop;dr.who=",
        "dfs.namenode.kerberos.principal": f"nn/localhost@{REALM}",
        "dfs.data.transfer.protection": "authentication",
        "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "hadoop.http.authentication.kerberos.keytab": str(cluster.kdc.keytab("HTTP/localhost")),
        "hadoop.http.authentication.signature.secret.file": str(cluster.folder / "secret"),
        "yarn.resourcemanager.webapp.spnego-principal": f"HTTP/localhost@{REALM}",
        "yarn.resourcemanager.webapp.spnego-keytab-file": str(cluster.kdc.keytab("HTTP/localhost")),
        "yarn.admin.acl": "compactor",
    }
    for daemon, principal in _DAEMONS.items():
        values[f"yarn.{daemon}.principal"] = f"{principal}@{REALM}"
        values[f"yarn.{daemon}.keytab"] = str(cluster.kdc.add(principal))

    @dataclass(slots=True, kw_only=True)
    class SecureYarn(Yarn):
        """Is asked with a ticket of ``compactor``."""

        def ask(self, path: str, method: str = "GET", body: object = None) -> Any:
            given = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
            try:
                return json.loads(cluster.ask("compactor", f"{self.page}/ws/v1/cluster/{path}", "-X", method, *given))
            except (subprocess.CalledProcessError, ValueError) as error:
                raise URLError(str(error)) from error

    hdfs = f"hdfs://{cluster.authority}"
    with yarn(folder, hdfs, values, [java_options(cluster)], SecureYarn) as running:
        yield running
