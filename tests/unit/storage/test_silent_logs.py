"""Loggers of libraries that would log what they send."""

from __future__ import annotations

import logging

import pytest

from compactor.storage.silent_logs import silence_secrets


def test_no_token_and_no_header_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    silence_secrets()
    silence_secrets()
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("urllib3.connectionpool").debug('"%s %s" %s', "GET", "/f?delegation=hush&op=OPEN", 200)
        logging.getLogger("requests_kerberos.kerberos_").debug("Authorization header: %s", "Negotiate hush")
    assert caplog.messages == ['"GET /f?delegation=***&op=OPEN" 200']
