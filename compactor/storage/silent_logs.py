"""Keeps tokens and tickets out of the logs of the libraries that send them, at every level."""

from __future__ import annotations

import logging

from compactor.base.redaction import redact

#: Log addresses, in which a data node's token is.
_ADDRESSES = ("urllib3.connectionpool", "urllib3.util.retry", "webhdfs")
#: Logs headers, and failures that are raised as well. ``KRB5_TRACE`` shows what Kerberos does.
_HEADERS = ("requests_kerberos.kerberos_",)


def without_secrets() -> None:
    """Makes the loggers of this process keep secrets to themselves; may be called again."""
    for name in _ADDRESSES:
        logging.getLogger(name).addFilter(_scrubbed)
    for name in _HEADERS:
        logging.getLogger(name).addFilter(_none)


def _scrubbed(record: logging.LogRecord) -> bool:
    record.msg, record.args = redact(record.getMessage()), ()
    return True


def _none(record: logging.LogRecord) -> bool:
    return False
