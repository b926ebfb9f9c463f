"""Explains why Kerberos or a secure cluster refused a request, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Set on an error without the server's proof, such as a refusal before the log-in: only people may rely on its text.
UNPROVEN = "compactor_unproven"
_BASE = -1765328384  #: of Kerberos' codes; the first 128 are the protocol's own (RFC 4120, 7.5.9), then MIT's (krb5.h)
_NO_SUCH_FILE = 2  #: ENOENT, which a keytab raises as it is


class LogInFailed(Exception):
    """This process could not prove who it is. The text says why, and what to do."""


class NotProven(Exception):
    """A server answered without proving who it is. It may have carried out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosTrouble:
    """One kind of refusal: its cause, and what to do."""

    what: str
    fix: str


_NO_TICKET = KerberosTrouble(
    what="no ticket",
    fix="log in with kinit as the user of this process, or write principal and keytab into [storage.hdfs]",
)
_EXPIRED = KerberosTrouble(
    what="the ticket has expired",
    fix="log in again with kinit; a service needs principal and keytab in [storage.hdfs], which log in without a person",
)
_SKEW = KerberosTrouble(
    what="the clocks differ by too much",
    fix="set the clock of this machine, the KDC and the cluster by NTP; Kerberos allows five minutes",
)
_REALM = KerberosTrouble(
    what="wrong realm",
    fix="compare the realm of the principal with default_realm, [realms] and [domain_realm] of krb5.conf",
)
_CLIENT = KerberosTrouble(
    what="unknown principal", fix="the KDC has no such principal: correct it in [storage.hdfs], or have it created"
)
_SERVER = KerberosTrouble(
    what="unknown service",
    fix="url must have the host as the cluster's principal HTTP/<host>@REALM names it; no address and no alias",
)
_KEYS = KerberosTrouble(
    what="the keytab does not fit the principal",
    fix="look with `klist -kt FILE`; export it again with ktadd after each change of keys, and check principal",
)
_KEYTAB = KerberosTrouble(
    what="the keytab cannot be read", fix="check the path in keytab, and that this user may read the file"
)
_UNREACHABLE = KerberosTrouble(
    what="no KDC answers", fix="check kdc of this realm in krb5.conf, and that port 88 can be reached from here"
)
_CONFIGURED = KerberosTrouble(
    what="Kerberos is not configured here", fix="write /etc/krb5.conf (or name it in KRB5_CONFIG) with default_realm"
)
_LOCKED = KerberosTrouble(
    what="the principal is locked or has expired",
    fix="ask whoever runs the KDC; keys that have expired need a new keytab",
)

#: By the number behind ``_BASE``.
_BY_NUMBER = {
    1: _LOCKED,  # KDC_ERR_NAME_EXP
    6: _CLIENT,  # KDC_ERR_C_PRINCIPAL_UNKNOWN
    7: _SERVER,  # KDC_ERR_S_PRINCIPAL_UNKNOWN
    18: _LOCKED,  # KDC_ERR_CLIENT_REVOKED
    23: _LOCKED,  # KDC_ERR_KEY_EXPIRED
    24: _KEYS,  # KDC_ERR_PREAUTH_FAILED
    31: _KEYS,  # KRB_AP_ERR_BAD_INTEGRITY
    32: _EXPIRED,  # KRB_AP_ERR_TKT_EXPIRED
    33: _SKEW,  # KRB_AP_ERR_TKT_NYV
    37: _SKEW,  # KRB_AP_ERR_SKEW
    68: _REALM,  # KDC_ERR_WRONG_REALM
    135: _CONFIGURED,  # KRB5_CONFIG_CANTOPEN
    139: _NO_TICKET,  # KRB5_CC_BADNAME
    140: _NO_TICKET,  # KRB5_CC_UNKNOWN_TYPE
    141: _NO_TICKET,  # KRB5_CC_NOTFOUND
    143: _NO_TICKET,  # KRB5_NO_TKT_SUPPLIED
    154: _REALM,  # KRB5_REALM_UNKNOWN
    156: _UNREACHABLE,  # KRB5_KDC_UNREACH
    181: _KEYS,  # KRB5_KT_NOTFOUND
    184: _KEYTAB,  # KRB5_KT_IOERR
    194: _NO_TICKET,  # KRB5_FCC_PERM
    195: _NO_TICKET,  # KRB5_FCC_NOFILE
    213: _KEYTAB,  # KRB5_KEYTAB_BADVNO
    220: _REALM,  # KRB5_REALM_CANT_RESOLVE
    224: _CONFIGURED,  # KRB5_CONFIG_NODEFREALM
}
#: By GSSAPI's major code (RFC 2744, 3.9.1), where no minor code says more.
_BY_MAJOR = {7 << 16: _NO_TICKET, 11 << 16: _EXPIRED}
_GSSAPI = re.compile(r"Major \(\d+\): (?P<major>.*?), Minor \(\d+\): (?P<minor>.*?)(?:, Context: |$)")
_CONFIGURATION = -1429577728  #: base of what is wrong with krb5.conf itself (profile.h)

#: The trouble behind a cluster's refusal, by a part of its message.
_BY_MESSAGE = {
    "Clock skew too great": _SKEW,
    "No rules applied to": KerberosTrouble(
        what="the cluster knows no user for this principal",
        fix="add a rule to hadoop.security.auth_to_local in its core-site.xml",
    ),
    "is not allowed to impersonate": KerberosTrouble(
        what="refused proxy",
        fix="in the NameNode's core-site.xml, hadoop.proxyuser.<user>.groups (or .users) must name the user acted for",
    ),
    "Unauthorized connection for super-user": KerberosTrouble(
        what="refused proxy",
        fix="in the NameNode's core-site.xml, hadoop.proxyuser.<user>.hosts must name this machine",
    ),
    "Security enabled but user not authenticated by filter": KerberosTrouble(
        what="the cluster's pages do not ask for tickets",
        fix="set hadoop.http.authentication.type to kerberos in its core-site.xml",
    ),
    "Checksum failed": KerberosTrouble(
        what="the cluster cannot read the ticket",
        fix="its keytab for HTTP/<host> is older than the key in the KDC: export it again and restart it",
    ),
    "Cannot find key of appropriate type": KerberosTrouble(
        what="the cluster cannot read the ticket",
        fix="its keytab for HTTP/<host> lacks this key: export it again with all encryption types and restart it",
    ),
    "user group information: java.io": KerberosTrouble(what="the delegation token is damaged", fix="fetch a new one"),
    "can't be found in cache": KerberosTrouble(
        what="the delegation token is not valid", fix="it was cancelled, or its life is over: fetch a new one"
    ),
    "is expired": KerberosTrouble(
        what="the delegation token has expired", fix="fetch a new one, or use kerberos = true"
    ),
    "has expired, current time": KerberosTrouble(
        what="the delegation token has expired", fix="fetch a new one, or use kerberos = true"
    ),
    "Authentication required": KerberosTrouble(
        what="not logged in", fix="the cluster wants a ticket: write kerberos = true into [storage.hdfs]"
    ),
}


def find_trouble(error: BaseException) -> KerberosTrouble | None:
    """Finds the trouble behind an error of krb5 or GSSAPI, or behind an error that one of theirs caused."""
    seen: BaseException | None = error
    while seen is not None:
        code = getattr(seen, "err_code", None) or getattr(seen, "min_code", None)
        trouble = _find_by_code(code) if isinstance(code, int) else None
        trouble = trouble or _BY_MAJOR.get(getattr(seen, "maj_code", None) or 0)
        if trouble is not None:
            return trouble
        seen = getattr(seen, "base_error", None) or seen.__cause__
    return None


def _find_by_code(code: int) -> KerberosTrouble | None:
    signed = code - 2**32 if code >= 2**31 else code  # GSSAPI's minor codes have no sign
    if signed == _NO_SUCH_FILE:
        return _KEYTAB
    if _CONFIGURATION <= signed < _CONFIGURATION + 128:
        return _CONFIGURED
    return _BY_NUMBER.get(signed - _BASE)


def log_in_failed(error: BaseException, who: str) -> LogInFailed:
    """Returns the error to raise when ``who`` could not log in because of ``error``."""
    reason = _last_words(error)
    trouble = (
        _REALM if "Server krbtgt/" in reason else find_trouble(error)
    )  # the KDC of another realm is a service, too
    if trouble is None:
        return LogInFailed(f"{who} cannot log in ({reason}); KRB5_TRACE=/dev/stderr shows what was tried")
    return LogInFailed(f"{trouble.what}: {who} cannot log in ({reason}); {trouble.fix}")


def _last_words(error: BaseException) -> str:
    """Returns the library's message: that of GSSAPI's minor code, unless it only says ``Success``."""
    text = str(error)
    if (match := _GSSAPI.search(text)) is not None:
        return match["major"] if match["minor"] == "Success" else match["minor"]
    code = getattr(error, "err_code", None)
    return text.removesuffix(f" {code}") if code is not None else text


def add_advice(message: str) -> str:
    """Adds advice to a cluster's message, where the cause is known."""
    for part, trouble in _BY_MESSAGE.items():
        if part in message:
            return f"{message} ({trouble.what}; {trouble.fix})"
    return message
