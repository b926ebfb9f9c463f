"""A client of one HDFS cluster for one thread: NameNodes, sessions, and answers that are errors."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

from compactor.base.errors import AccessDenied, NotSupported, StorageError
from compactor.base.redaction import redact
from compactor.storage.hadoop_tokens import token_for
from compactor.storage.hdfs_options import HTTP_PORT, HdfsOptions
from compactor.storage.kerberos_errors import UNPROVEN, LogInFailed, NotProven, add_advice
from compactor.storage.silent_logs import silence_secrets

#: The exception's name in the page that HttpFS returns when a stream fails.
_THROWN = re.compile(r"\bjava\.[a-z.]+\.(\w+Exception)\b")
_AWAY = frozenset({"StandbyException", "RetriableException", "SafeModeException"})


class RemoteError(Exception):
    """An error that HDFS answered.

    ``kind`` is its exception's name, or ``Connection`` if there was no answer.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class HdfsClient:
    """The NameNodes of one cluster, one of them active. Each thread has its own client."""

    def __init__(self, authority: str, options: Mapping[str, Any]) -> None:
        cluster = HdfsOptions.from_table(f'"hdfs://{authority}"', options)
        if (token := handed_over_token(authority, cluster)) is not None:
            cluster = replace(cluster, kerberos=None, session={**cluster.session, "token": token})
        self._timeout = cluster.timeout
        self._verify = cluster.session.get("session_verify")
        silence_secrets()
        urls = cluster.urls or (f"http://{host_of(authority)}:{HTTP_PORT}",)
        self._names = [_name_node(authority, url, cluster) for url in urls]

    def ask(self, op: str, method: str, path: str, *, redirect: bool, **parameters: object) -> Any:
        """Returns the answer of the active NameNode, which it looks for among all of them."""
        for number, node in enumerate(list(self._names)):
            last = number == len(self._names) - 1
            url = node._apply_proxy(node.url + quote(path, safe="/="))
            try:
                answer = self.send(
                    method, url, node=node, redirect=redirect, params={**parameters, **node.pars, "op": op}
                )
            except RemoteError as error:
                if last or error.kind not in (*_AWAY, "Connection"):
                    raise
                continue
            if number:
                self._names.insert(0, self._names.pop(number))
            return answer
        raise AssertionError("a client has a NameNode")

    def send(self, method: str, url: str, *, node: Any = None, redirect: bool = True, **arguments: Any) -> Any:
        """Returns the answer to one request. Only NameNodes receive credentials.

        Raises:
            RemoteError: there is no answer, or it is an error.
        """
        import requests

        if node is None and _origin(url) not in {_origin(name_node.url) for name_node in self._names}:
            arguments["auth"] = _no_credentials  # a data node, whose address a NameNode answered
        node = node or self._names[0]
        try:
            # verify is passed here, because REQUESTS_CA_BUNDLE has precedence over the session's own
            answer = node.session.request(
                method, url, allow_redirects=redirect, timeout=self._timeout, verify=self._verify, **arguments
            )
        except LogInFailed as error:
            raise RemoteError("Kerberos", str(error)) from error
        except NotProven as error:
            done = "" if method == "GET" else "; it may have carried out the request all the same"
            raise RemoteError("Kerberos", f"{error}{done}") from error
        except requests.RequestException as error:
            raise RemoteError("Connection", f"no answer ({type(error).__name__}: {redact(str(error))})") from error
        if answer.status_code < 400:
            return answer
        raise _error_in(answer)

    def proxied(self, url: str) -> str:
        """Returns the address at which a data node's ``url`` is reached from here."""
        return str(self._names[0]._apply_proxy(url))


def handed_over_token(authority: str, options: HdfsOptions) -> str | None:
    """Returns the token that Hadoop handed to this process, as in a container of YARN.

    Returns None if there is a keytab.
    """
    if options.kerberos is None or options.kerberos.keytab or "proxy_to" in options.session:
        return None
    return token_for(authority, os.environ)


def _name_node(authority: str, url: str, options: HdfsOptions) -> Any:
    """Returns fsspec's client of the NameNode or gateway at ``url``."""
    with _extra("HDFS", "hdfs", authority):
        from fsspec.implementations.webhdfs import WebHDFS
    parts = urlsplit(url)
    host = parts.hostname or ""
    secure = parts.scheme == "https"
    client = WebHDFS(
        f"[{host}]" if ":" in host else host,
        parts.port or (443 if secure else HTTP_PORT),
        use_https=secure,
        skip_instance_cache=True,
        **options.session,
    )
    if options.kerberos is not None:
        with _extra("Kerberos", "hdfs,kerberos", authority):
            from compactor.storage.hdfs_kerberos import Negotiate
        client.session.auth = Negotiate(options.kerberos)
    return client


@contextlib.contextmanager
def _extra(what: str, extra: str, authority: str) -> Iterator[None]:
    """Turns a missing module into an error that names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise NotSupported(
            f"hdfs://{authority}: {what} needs the extra: pip install 'hive-compactor[{extra}]' ({error})"
        ) from error


def _error_in(answer: Any) -> RemoteError:
    """Returns the error that HDFS answered, or a proxy or filter in front of it."""
    try:
        remote = answer.json()["RemoteException"]
        kind, message = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        thrown = _THROWN.search(answer.text)
        kind, message = (thrown[1] if thrown else "Http"), f"answer {answer.status_code} {answer.reason}"
    if getattr(answer, UNPROVEN, False):  # nothing may depend on the kind of an unproven answer
        kind = "Http"
    return RemoteError(kind, add_advice(redact(message.partition("\n")[0])))


def _origin(url: str) -> tuple[str, str]:
    """Returns scheme, host and port of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def _no_credentials(request: Any) -> Any:
    """Sends a request unchanged: the address from the NameNode holds everything that the data node needs."""
    return request


def host_of(authority: str) -> str:
    """Returns the host of an authority: ``nn`` for ``user@nn:8020``, ``[::1]`` for ``[::1]:8020``."""
    host = authority.rpartition("@")[2]
    return f"{host.partition(']')[0]}]" if host.startswith("[") else host.partition(":")[0]


def split_location(path: str) -> tuple[str, str]:
    """Returns authority and path: ``hdfs://nn:8020/a/b`` is ``nn:8020`` and ``/a/b``."""
    authority, _, inside = path.partition("://")[2].partition("/")
    return authority, f"/{inside}"


@contextlib.contextmanager
def hdfs_errors(verb: str, path: str) -> Iterator[None]:
    """Turns an error of HDFS into a ``StorageError`` that names the operation and the path."""
    try:
        yield
    except RemoteError as error:
        kind = AccessDenied if error.kind == "AccessControlException" else StorageError
        raise kind(f"cannot {verb} {path}: {error.kind}: {error}") from error
