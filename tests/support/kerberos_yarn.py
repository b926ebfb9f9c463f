"""A YARN that takes nobody without a ticket, over a NameNode that does the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
        "yarn.acl.enable": "false",  # else our questions to the REST interface, without a ticket, see nothing
    }
    for daemon, principal in _DAEMONS.items():
        values[f"yarn.{daemon}.principal"] = f"{principal}@{REALM}"
        values[f"yarn.{daemon}.keytab"] = str(cluster.kdc.add(principal))
    with yarn(folder, f"hdfs://{cluster.authority}", values, [java_options(cluster)]) as running:
        yield running
