"""Options of ``[storage.hdfs]``."""

from __future__ import annotations

import pytest

from compactor.base.errors import BadSetting
from compactor.storage.hdfs_options import HdfsOptions, merge_cluster_options

TICKET = {"kerberos": True, "principal": "compactor@EXAMPLE.COM", "keytab": "/etc/compactor.keytab"}


def test_nothing_is_needed() -> None:
    found = HdfsOptions.from_table("hdfs", {"user": ""})
    assert (found.urls, found.timeout, found.kerberos, dict(found.session)) == ((), 60.0, None, {})


def test_a_ticket() -> None:
    found = HdfsOptions.from_table(
        "hdfs", {**TICKET, "url": "https://nn:9871", "ca_file": "/ca.pem", "proxy_to": "hive"}
    )
    assert found.kerberos is not None
    assert (found.kerberos.principal, found.kerberos.keytab) == ("compactor@EXAMPLE.COM", "/etc/compactor.keytab")
    assert found.session == {"proxy_to": "hive", "session_verify": "/ca.pem"}
    assert found.urls == ("https://nn:9871",)


def test_what_is_secret_is_not_shown() -> None:
    assert "hush" not in repr(HdfsOptions.from_table("hdfs", {"token": "hush"}))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keytba": "/k"}, r"keytba: no such option; did you mean keytab\?"),
        ({"verify": False}, r"verify: no such option; did you mean ca_file\?"),
        ({"session_verify": False}, "a server whose certificate nobody checks may be anybody; write the file with"),
        ({"kerberos": "yes"}, "kerberos = 'yes': expected true or false"),
        ({**TICKET, "user": "hive"}, "kerberos and user: a ticket says who logs in; leave one of them out"),
        ({**TICKET, "token": "t"}, "kerberos and token"),
        ({"token": "t", "user": "hive"}, "token and user: a token says who logs in"),
        ({"token": "t", "proxy_to": "hive"}, "token and proxy_to"),
        ({"password": "hush"}, "password without user"),
        ({"keytab": "/k"}, "keytab without kerberos = true"),
        ({"kerberos": False, "principal": "a"}, "principal without kerberos = true"),
        ({"kerberos": True, "keytab": 7}, "keytab = 7: expected text"),
        (
            {"kerberos": True, "kerb_kwargs": {"mutual_authentication": 3}},
            "kerb_kwargs: mutual_authentication: not taken",
        ),
        ({"kerberos": True, "kerb_kwargs": "HTTP"}, "is not a table"),
        ({**TICKET, "doas": "ann"}, "doas = 'ann': expected true or false; proxy_to names one user"),
        ({**TICKET, "doas": True, "proxy_to": "ann"}, "doas and proxy_to"),
        ({"user": "hive", "doas": True}, "doas without kerberos = true"),
        ({"timeout": "1m"}, "timeout = '1m': expected seconds"),
        ({"url": "ftp://ann:hush@nn"}, r"url = 'ftp://\*\*\*@nn': expected http://host:port"),
    ],
)
def test_what_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadSetting, match=said) as refused:
        HdfsOptions.from_table("hdfs", options)
    assert "[storage.hdfs]" in str(refused.value)
    assert "hush" not in str(refused.value)


def test_a_cluster_that_says_who_logs_in_says_all_about_it() -> None:
    of_all = {**TICKET, "timeout": 5}
    assert merge_cluster_options(of_all, {"url": "http://nn"}) == {**of_all, "url": "http://nn"}
    assert merge_cluster_options(of_all, {"user": "hive"}) == {"timeout": 5, "user": "hive"}
    assert merge_cluster_options({"user": "hive", "password": "p"}, TICKET) == TICKET


@pytest.mark.parametrize("secret", [{"user": "ann", "password": "s3cret"}, {"token": "s3cret"}])
@pytest.mark.parametrize("url", ["http://nn.example:9870", ["https://a.example:1", "http://b.example:1"]])
def test_a_secret_is_not_sent_without_tls(secret: dict[str, str], url: object) -> None:
    with pytest.raises(BadSetting, match="it is not sent to another machine without TLS") as raised:
        HdfsOptions.from_table("hdfs", {"url": url, **secret})
    assert "s3cret" not in str(raised.value)
    for other in ("https://nn.example:9871", "http://localhost:9870", "http://127.0.0.1:9870", "http://[::1]:9870"):
        HdfsOptions.from_table("hdfs", {"url": other, **secret})
