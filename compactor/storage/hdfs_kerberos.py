"""Logs in to a NameNode with a Kerberos ticket, and refuses answers without the server's proof.

Imported only if a cluster is reached by ticket, since it needs the libraries of the extra ``kerberos``.
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
    """One thread's log-ins to the NameNodes of a cluster. It logs in whenever a server asks for it.

    With a keytab each log-in fetches its own tickets into memory, so they are never too old, and no other process's cache
    matters. Without a keytab it uses the process's ticket cache, which somebody else renews.
    """

    def __init__(self, options: Kerberos) -> None:
        self._who = _describe_user(options)
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
        """Logs in, and requires a new proof from the server.

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
            checked: Response = super().handle_other(response)
        except MutualAuthenticationError as error:
            response.close()
            host = urlsplit(response.url).netloc
            raise NotProven(
                f"{host} answered {response.status_code} and did not prove that it is who it says"
            ) from error
        if not self.auth_done:
            setattr(checked, UNPROVEN, True)
        return checked


def read_tickets(options: Kerberos) -> tuple[str, float]:
    """Returns the principal of a log-in's tickets, and for how many seconds they are valid.

    Raises:
        LogInFailed: there are none.
    """
    who = _describe_user(options)
    _must_be_private(options)
    try:
        name = gssapi.Name(options.principal, gssapi.NameType.kerberos_principal) if options.principal else None
        store = {"client_keytab": options.keytab, "ccache": f"MEMORY:{uuid.uuid4().hex}"} if options.keytab else None
        credentials = gssapi.Credentials(usage="initiate", name=name, store=store)
        return str(credentials.name), float(credentials.lifetime or 0)
    except gssapi.exceptions.GSSError as error:
        raise log_in_failed(error, who) from error


def _must_be_private(options: Kerberos) -> None:
    """Checks that nobody else may read or replace the keytab, even if only the environment names it.

    Raises:
        BadSetting: somebody else may.
    """
    if options.keytab is not None:
        must_be_secret(Path(options.keytab), "keytab")
    elif keytab := client_keytab(os.environ):
        must_be_secret(keytab, CLIENT_KEYTAB)


def _describe_user(options: Kerberos) -> str:
    return options.principal or (f"whoever {options.keytab} is for" if options.keytab else "this process")
