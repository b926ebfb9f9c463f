"""The meaning of an error of Kerberos' libraries, or of a cluster's words."""

from __future__ import annotations

import re

import pytest

from compactor.storage.kerberos_errors import add_advice, log_in_failed


class Krb5Error(Exception):
    """As the library raises it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} {code}")
        self.err_code = code


class GssError(Exception):
    """As GSSAPI's library raises it: its minor codes have no sign."""

    def __init__(self, major: int, minor: int, text: str) -> None:
        super().__init__(text)
        self.maj_code, self.min_code = major, minor


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            Krb5Error(2, "Key table file '/k' not found"),
            r"keytab cannot be read: ann .*\(Key table file '/k' not found\)",
        ),
        (Krb5Error(-1765328203, "No suitable keys"), "the keytab does not fit the principal: ann"),
        (Krb5Error(-1765328378, "Client not found"), "unknown principal: ann"),
        (Krb5Error(-1765328377, "Server krbtgt/B@A not found"), "wrong realm: ann"),
        (Krb5Error(-1765328377, "Server HTTP/x@A not found"), "unknown service: ann"),
        (Krb5Error(-1765328228, "Cannot contact any KDC"), "no KDC answers: ann"),
        (Krb5Error(-1429577702, "Can't open profile"), "Kerberos is not configured here: ann"),
        (Krb5Error(22, "Invalid argument"), r"^ann cannot log in \(Invalid argument\); KRB5_TRACE"),
    ],
)
def test_by_its_code(error: Exception, said: str) -> None:
    assert re.search(said, str(log_in_failed(error, "ann")))


def test_the_error_behind_it_counts() -> None:
    text = "SpnegoError (1): Major (851968): Unspecified GSS failure.  More, Minor (2529638944): Ticket expired, Context: x"
    outer = RuntimeError(text)
    outer.__cause__ = GssError(851968, 2529638944, text)
    assert str(log_in_failed(outer, "ann")).startswith("the ticket has expired: ann cannot log in (Ticket expired); ")


def test_a_major_code_counts_where_the_minor_says_nothing() -> None:
    text = "Major (720896): The referenced credential has expired, Minor (100001): Success, Context: Getting"
    said = str(log_in_failed(GssError(11 << 16, 100001, text), "ann"))
    assert said.startswith("the ticket has expired: ann cannot log in (The referenced credential has expired); ")


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (
            "User: a is not allowed to impersonate b",
            "(refused proxy; in the NameNode's core-site.xml, hadoop.proxyuser.",
        ),
        ("Unauthorized connection for super-user: a from IP 10.0.0.1", "hosts must name this machine"),
        ("No rules applied to x@EXAMPLE.COM", "hadoop.security.auth_to_local"),
        ("Failure unspecified at GSS-API level (Mechanism level: Clock skew too great (37))", "the clocks differ"),
        ("token (token for hive: …) can't be found in cache", "the delegation token is not valid"),
        ("token (token for hive: …) is expired", "the delegation token has expired"),
    ],
)
def test_a_clusters_words_are_kept_and_explained(said: str, what: str) -> None:
    assert add_advice(said).startswith(f"{said} (")
    assert what in add_advice(said)


def test_other_words_stay_as_they_are() -> None:
    assert add_advice("Permission denied: user=ann") == "Permission denied: user=ann"
