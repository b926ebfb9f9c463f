"""Keeps tokens and tickets out of the logs of the libraries that send them, at every level."""

from __future__ import annotations

import logging

from compactor.base.redaction import redact

#: These log addresses, which contain a data node's token.
_ADDRESSES = ("urllib3.connectionpool", "urllib3.util.retry", "webhdfs")
#: Logs headers, and failures that it also raises. ``KRB5_TRACE`` shows what Kerberos does.
_HEADERS = ("requests_kerberos.kerberos_",)


def silence_secrets() -> None:
    """Filters secrets out of the loggers of this process. May be called repeatedly."""
    for name in _ADDRESSES:
        logging.getLogger(name).addFilter(_redact_record)
    for name in _HEADERS:
        logging.getLogger(name).addFilter(_drop_record)


def _redact_record(record: logging.LogRecord) -> bool:
    record.msg, record.args = redact(record.getMessage()), ()
    return True


def _drop_record(record: logging.LogRecord) -> bool:
    return False
