"""The options of ``[storage.hdfs]`` for one cluster: its NameNodes, and how to log in."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from compactor.base.errors import BadSetting
from compactor.base.private_files import is_here

HTTP_PORT = 9870  #: of a NameNode, unless configured
TIMEOUT_S = 60.0  #: to connect, and between two bytes of an answer
#: Options that decide who we are in a cluster: by a name, a ticket or a delegation token.
LOG_IN = ("user", "password", "kerberos", "principal", "keytab", "kerb_kwargs", "token", "proxy_to", "doas")
KNOWN = (*LOG_IN, "url", "authorities", "httpfs", "timeout", "ca_file", "session_verify", "session_cert", "data_proxy")
#: Arguments of requests-kerberos that a site may need; the others weaken the proof, or hand the ticket on.
_NEGOTIATION = ("service", "hostname_override", "send_cbt", "force_preemptive")
_USER_OF_URL = re.compile(r"//[^/]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kerberos:
    """A log-in by ticket, from ``keytab`` if there is one, otherwise from this process's ticket cache."""

    principal: str | None
    keytab: str | None
    negotiation: Mapping[str, Any] = field(default_factory=dict)  #: arguments for requests-kerberos


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsOptions:
    """The options of one cluster. Its ``session`` is never shown, as it may hold a password or token."""

    urls: tuple[str, ...]
    timeout: float
    kerberos: Kerberos | None
    session: Mapping[str, Any] = field(repr=False)  #: arguments of fsspec's WebHDFS

    @classmethod
    def from_table(cls, table: str, values: Mapping[str, Any]) -> HdfsOptions:
        """Checks the values of ``[storage.table]`` and returns them as options.

        Raises:
            BadSetting: an option is unknown, has the wrong type, or excludes another one.
        """
        options = {key: value for key, value in values.items() if value not in (None, "")}
        _check_names(table, options)
        _check_urls(table, options.get("url", []))
        _check_log_in(table, options)
        _check_secrets(table, options)
        urls = options.get("url") or ()
        return cls(
            urls=(urls,) if isinstance(urls, str) else tuple(urls),
            timeout=_timeout(table, options.get("timeout", TIMEOUT_S)),
            kerberos=_kerberos(table, options),
            session=_session(table, options),
        )


def merge_cluster_options(of_all: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merges a cluster's own options with those of all clusters; takes the log-in from one of them only."""
    says_who = any(name in own for name in ("user", "kerberos", "token"))
    return {**(without_log_in(of_all) if says_who else of_all), **own}


def acting_for(options: Mapping[str, Any], user: str, *, has_token: bool) -> dict[str, Any]:
    """Returns the options to act for ``user``, if ``doas`` tells applications to do so.

    Args:
        has_token: Hadoop handed tokens to this process, which already belong to ``user``.
    """
    kept = {name: value for name, value in options.items() if name != "doas"}
    short = re.split("[/@]", str(options.get("principal") or ""))[0]
    is_needed = options.get("doas") and short != user and not (has_token and not options.get("keytab"))
    return {**kept, "proxy_to": user} if is_needed else kept


def without_log_in(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options without those of the log-in."""
    return {name: value for name, value in options.items() if name not in LOG_IN}


def _check_names(table: str, options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, n=1)
            if name == "verify":
                near = ["ca_file"]
            meant = f"; did you mean {near[0]}?" if near else ""
            raise BadSetting(f"[storage.{table}] {name}: no such option{meant} Known are {', '.join(KNOWN)}")


def _check_urls(table: str, urls: object) -> None:
    for url in [urls] if isinstance(urls, str) else urls if isinstance(urls, list) else [None]:
        try:
            parts = urlsplit(url) if isinstance(url, str) else None
            port = parts.port if parts is not None else None  # raises ValueError for a bad port
        except ValueError:
            parts = port = None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            shown = _USER_OF_URL.sub("//***@", repr(url))
            raise BadSetting(f"[storage.{table}] url = {shown}: expected http://host:port of a NameNode or HttpFS")


def _check_log_in(table: str, options: Mapping[str, Any]) -> None:
    kerberos = options.get("kerberos", False)
    if not isinstance(kerberos, bool):
        raise BadSetting(f"[storage.{table}] kerberos = {kerberos!r}: expected true or false")
    for name, excluded, why in (
        ("kerberos", ("user", "password", "token"), "a ticket says who logs in"),
        ("token", ("user", "password", "proxy_to"), "a token says who logs in, and for whom"),
    ):
        conflicts = [other for other in excluded if options.get(name) and other in options]
        if conflicts:
            raise BadSetting(f"[storage.{table}] {name} and {conflicts[0]}: {why}; leave one of them out")
    if "password" in options and "user" not in options:
        raise BadSetting(f"[storage.{table}] password without user: write both, or neither")
    if not isinstance(options.get("doas", False), bool):
        raise BadSetting(
            f"[storage.{table}] doas = {options['doas']!r}: expected true or false; proxy_to names one user"
        )
    if options.get("doas") and "proxy_to" in options:
        raise BadSetting(
            f"[storage.{table}] doas and proxy_to: doas acts for the user of each application, proxy_to for one user; "
            "leave one of them out"
        )
    for name in ("principal", "keytab", "kerb_kwargs", "doas"):
        if name in options and not kerberos:
            raise BadSetting(f"[storage.{table}] {name} without kerberos = true: write it, or leave {name} out")


def _check_secrets(table: str, options: Mapping[str, Any]) -> None:
    """Refuses to send a password or token unencrypted to another machine."""
    secret = next((name for name in ("password", "token") if name in options), None)
    urls = options.get("url", [])
    for url in [urls] if isinstance(urls, str) else urls:
        parts = urlsplit(url)
        if secret is not None and parts.scheme == "http" and not is_here(parts.hostname or ""):
            raise BadSetting(
                f"[storage.{table}] {secret} and url = http://{parts.hostname}: it is not sent to another machine without "
                "TLS, since anybody on the way may read it; expected: a URL with https://, or kerberos = true"
            )


def _timeout(table: str, timeout: object) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        raise BadSetting(f"[storage.{table}] timeout = {timeout!r}: expected seconds, more than 0")
    return float(timeout)


def _kerberos(table: str, options: Mapping[str, Any]) -> Kerberos | None:
    if not options.get("kerberos"):
        return None
    negotiation = options.get("kerb_kwargs", {})
    if not isinstance(negotiation, Mapping) or (more := [name for name in negotiation if name not in _NEGOTIATION]):
        problem = (
            f"{more[0]}: not taken here" if isinstance(negotiation, Mapping) else f"{negotiation!r}: is not a table"
        )
        raise BadSetting(f"[storage.{table}] kerb_kwargs: {problem}; expected some of {', '.join(_NEGOTIATION)}")
    return Kerberos(
        principal=_text(table, options, "principal"), keytab=_text(table, options, "keytab"), negotiation=negotiation
    )


def _session(table: str, options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("user", "password", "token", "proxy_to", "data_proxy")
    session = {name: options[name] for name in names if name in options}
    if "session_cert" in options:
        certificate = options["session_cert"]
        session["session_cert"] = tuple(certificate) if isinstance(certificate, list) else certificate
    authority = _text(table, options, "ca_file")
    verify = options.get("session_verify", True)
    if verify is False:
        raise BadSetting(
            f"[storage.{table}] session_verify = false: a server whose certificate nobody checks may be anybody; write "
            'the file with the certificate of its authority: ca_file = "/path/of/ca.pem"'
        )
    if authority or verify is not True:
        session["session_verify"] = authority or verify
    return session


def _text(table: str, options: Mapping[str, Any], name: str) -> str | None:
    text = options.get(name)
    if text is not None and not isinstance(text, str):
        raise BadSetting(f"[storage.{table}] {name} = {text!r}: expected text")
    return text
