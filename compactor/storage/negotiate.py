"""Proves who we are to a NameNode by a Kerberos ticket, and takes no answer from one that did not prove the same.

Loaded only where a cluster is reached by ticket: its libraries are those of the extra ``kerberos``.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gssapi
import spnego
from krb5 import Krb5Error
from requests import Response
from requests_kerberos import REQUIRED, HTTPKerberosAuth
from requests_kerberos.exceptions import KerberosExchangeError, MutualAuthenticationError
from spnego.exceptions import SpnegoError

from compactor.base.private_files import CLIENT_KEYTAB, client_keytab, must_be_secret
from compactor.storage.hdfs_options import Kerberos
from compactor.storage.kerberos_errors import UNPROVEN, NotProven, log_in_failed


class Negotiate(HTTPKerberosAuth):  # type: ignore[misc]  # without types
    """One thread's log-ins to the NameNodes of a cluster, each when a server asks for one.

    With a keytab each log-in gets tickets of its own, in memory: none is ever too old, and no other process's cache has a
    say. Without one the tickets are those of the process's cache, which somebody else renews.
    """

    def __init__(self, options: Kerberos) -> None:
        self._who = _said_of(options)
        principal: Any = options.principal
        _must_be_private(options)
        if options.keytab is not None:
            principal = spnego.KerberosKeytab(options.keytab, options.principal)
        super().__init__(
            mutual_authentication=REQUIRED,
            principal=principal,
            sanitize_mutual_error_response=False,
            **options.negotiation,
        )

    def generate_request_header(self, response: Response | None, host: str, is_preemptive: bool = False) -> str:
        """Logs in; the server has to prove itself again, too.

        Raises:
            LogInFailed: there is no ticket, no KDC, no such principal …
        """
        self.auth_done = False
        try:
            return str(super().generate_request_header(response, host, is_preemptive))
        except (
            KerberosExchangeError,
            SpnegoError,
            Krb5Error,
            IndexError,
        ) as error:  # an empty keytab has no first entry
            if response is not None:
                response.close()
            raise log_in_failed(error, self._who) from error

    def handle_other(self, response: Response) -> Response:
        """Checks the server's proof. An error without one is marked.

        Raises:
            NotProven: any other answer has none.
        """
        try:
            found: Response = super().handle_other(response)
        except MutualAuthenticationError as error:
            response.close()
            host = urlsplit(response.url).netloc
            raise NotProven(
                f"{host} answered {response.status_code} and did not prove that it is who it says"
            ) from error
        if not self.auth_done:
            setattr(found, UNPROVEN, True)
        return found


def tickets_of(options: Kerberos) -> tuple[str, float]:
    """Returns the principal whose tickets a log-in has, and for how many seconds they are good.

    Raises:
        LogInFailed: there are none.
    """
    who = _said_of(options)
    _must_be_private(options)
    try:
        name = gssapi.Name(options.principal, gssapi.NameType.kerberos_principal) if options.principal else None
        store = {"client_keytab": options.keytab, "ccache": f"MEMORY:{uuid.uuid4().hex}"} if options.keytab else None
        found = gssapi.Credentials(usage="initiate", name=name, store=store)
        return str(found.name), float(found.lifetime or 0)
    except gssapi.exceptions.GSSError as error:
        raise log_in_failed(error, who) from error


def _must_be_private(options: Kerberos) -> None:
    """Checks that nobody else may read or replace the keytab of a log-in, also where the environment names it.

    Raises:
        BadSetting: somebody may.
    """
    if options.keytab is not None:
        must_be_secret(Path(options.keytab), "keytab")
    elif keytab := client_keytab(os.environ):
        must_be_secret(keytab, CLIENT_KEYTAB)


def _said_of(options: Kerberos) -> str:
    return options.principal or (f"whoever {options.keytab} is for" if options.keytab else "this process")
