"""One HDFS cluster over WebHDFS or HttpFS, as one thread asks it: its NameNodes, sessions, and answers that are errors."""

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
from compactor.storage.kerberos_errors import UNPROVEN, LogInFailed, NotProven, advised
from compactor.storage.silent_logs import without_secrets

#: The exception's name in the page that HttpFS returns when a stream fails.
_THROWN = re.compile(r"\bjava\.[a-z.]+\.(\w+Exception)\b")
_AWAY = frozenset({"StandbyException", "RetriableException", "SafeModeException"})


class RemoteError(Exception):
    """An error that HDFS answered; ``kind`` is the name of its exception, ``Connection`` if there was no answer."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class HdfsClient:
    """One cluster's NameNodes, one of which is active, as one thread uses them."""

    def __init__(self, authority: str, options: Mapping[str, Any]) -> None:
        given = HdfsOptions.of(f'"hdfs://{authority}"', options)
        if (token := given_token(authority, given)) is not None:
            given = replace(given, kerberos=None, session={**given.session, "token": token})
        self._timeout = given.timeout
        self._verify = given.session.get("session_verify")
        without_secrets()
        urls = given.urls or (f"http://{host_of(authority)}:{HTTP_PORT}",)
        self._names = [_name_node(authority, url, given) for url in urls]

    def ask(self, op: str, method: str, path: str, *, redirect: bool, **parameters: object) -> Any:
        """Returns the answer of the active NameNode; asks the others in turn."""
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
        """Returns the answer to one request, with credentials for a NameNode alone.

        Raises:
            RemoteError: there is no answer, or it is an error.
        """
        import requests

        if node is None and _origin(url) not in {_origin(one.url) for one in self._names}:
            arguments["auth"] = _no_credentials  # a data node's address, which a NameNode answered
        node = node or self._names[0]
        try:
            # given here, since the environment (REQUESTS_CA_BUNDLE) has precedence over the session's own
            answer = node.session.request(
                method, url, allow_redirects=redirect, timeout=self._timeout, verify=self._verify, **arguments
            )
        except LogInFailed as error:
            raise RemoteError("Kerberos", str(error)) from error
        except NotProven as error:
            done = "" if method == "GET" else "; what was asked may have been done all the same"
            raise RemoteError("Kerberos", f"{error}{done}") from error
        except requests.RequestException as error:
            raise RemoteError("Connection", f"no answer ({type(error).__name__}: {redact(str(error))})") from error
        if answer.status_code < 400:
            return answer
        raise _error_in(answer)

    def proxied(self, url: str) -> str:
        """Returns the address at which a data node's ``url`` is reached from here."""
        return str(self._names[0]._apply_proxy(url))


def given_token(authority: str, options: HdfsOptions) -> str | None:
    """Returns the token that this process was given instead of a ticket, as in a container of YARN; a keytab is better."""
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
    made = WebHDFS(
        f"[{host}]" if ":" in host else host,
        parts.port or (443 if secure else HTTP_PORT),
        use_https=secure,
        skip_instance_cache=True,
        **options.session,
    )
    if options.kerberos is not None:
        with _extra("Kerberos", "hdfs,kerberos", authority):
            from compactor.storage.negotiate import Negotiate
        made.session.auth = Negotiate(options.kerberos)
    return made


@contextlib.contextmanager
def _extra(what: str, extra: str, authority: str) -> Iterator[None]:
    """Says which extra to install where a module is missing."""
    try:
        yield
    except ImportError as error:
        raise NotSupported(
            f"hdfs://{authority}: {what} needs the extra: pip install 'hive-compactor[{extra}]' ({error})"
        ) from error


def _error_in(answer: Any) -> RemoteError:
    """Returns the error that HDFS answered, or a proxy or filter before it."""
    try:
        remote = answer.json()["RemoteException"]
        kind, said = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        thrown = _THROWN.search(answer.text)
        kind, said = (thrown[1] if thrown else "Http"), f"answer {answer.status_code} {answer.reason}"
    if getattr(answer, UNPROVEN, False):  # nothing may follow from it but these words
        kind = "Http"
    return RemoteError(kind, advised(redact(said.partition("\n")[0])))


def _origin(url: str) -> tuple[str, str]:
    """Returns scheme, host and port of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def _no_credentials(request: Any) -> Any:
    """Sends a request as it is: the address that a NameNode answered holds what its data node wants."""
    return request


def host_of(authority: str) -> str:
    """Returns the host of an authority, an IPv6 address in its brackets."""
    host = authority.rpartition("@")[2]
    return f"{host.partition(']')[0]}]" if host.startswith("[") else host.partition(":")[0]


def split_location(path: str) -> tuple[str, str]:
    """Returns the authority and the path inside the cluster."""
    authority, _, inside = path.partition("://")[2].partition("/")
    return authority, f"/{inside}"


@contextlib.contextmanager
def saying_plainly(verb: str, path: str) -> Iterator[None]:
    """Raises a ``StorageError`` that says what was to be done where HDFS answers with an error."""
    try:
        yield
    except RemoteError as error:
        kind = AccessDenied if error.kind == "AccessControlException" else StorageError
        raise kind(f"cannot {verb} {path}: {error.kind}: {error}") from error
