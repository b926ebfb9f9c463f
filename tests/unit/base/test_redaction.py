from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from compactor.base import redaction
from compactor.base.errors import CompactorError
from compactor.base.printable import PrintableFormatter
from compactor.base.redaction import (
    find_secrets,
    is_secret,
    is_secret_key,
    redact,
    redact_plain,
    redact_value,
    remember,
    remember_secrets,
)


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", [])


@pytest.mark.parametrize(
    "key",
    [
        "spark.authenticate.secret",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "fs.s3a.session.token",
        "smtp.pass",
        "AIRFLOW__CORE__FERNET_KEY",
        "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
        "fs.azure.account.oauth2.client.secret",
        "fs.azure.sas.c.acct",
        "fs.gs.auth.service.account.private.key",
        "spark.ssl.keyPassword",
        "spark.ssl.keyStorePassword",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "javax.jdo.option.ConnectionPassword",
        "HADOOP_CREDSTORE_PASSWORD",
        "my.password",
        "MyPwd",
        "db_passwd",
        "api_key",
        "apiKey",
        "secret",
        "secretkey",
        "sslpassword",
        "X-Amz-Signature",
        "X-Amz-Security-Token",
        "delegation",
        "sig",
        "Authorization",
        "client-secret",
        "spark.executorEnv.PGPASSWORD",
        "account_key",
        "sasToken",
        "s3.encryption.key",
        "spark.kubernetes.authenticate.oauthToken",
        "spark.redis.auth",
        "requirepass",
        "db.creds",
        "ldap.bindpw",
        "appKey",
        "spark.ssl.psk",
        "parquet.encryption.key.list",
        "spark.encryption.masterKey",
    ],
)
def test_names_of_secrets(key: str) -> None:
    assert is_secret_key(key)
    assert redact_value(key, "hush") == "***"
    assert redact_plain({key: "hush", "other": {"key": key, "value": "hush"}}) == {
        key: "***",
        "other": {"key": key, "value": "***"},
    }
    assert "hush" not in redact(f"bad option {key} = 'hush'")


@pytest.mark.parametrize(
    "key",
    [
        "spark.authenticate",
        "spark.executor.memory",
        "compactor.reads.token.file",
        "hadoop.security.credential.provider.path",
        "key",
        "partition_keys",
        "sort_columns",
        "fs.s3a.aws.credentials.provider",
        "spark.kerberos.keytab",
        "spark.ssl.keyStoreType",
        "password_file",
        "spark.security.credentials.hive.enabled",
        "hive.compactor.job.queue",
        "author",
        "keyword",
        "authority",
        "passenger_path",
        "HADOOP_TOKEN_FILE_LOCATION",
        "hive.server2.authentication",
        "spark.proxy.bypass",
        "parquet.encryption.column.keys",
    ],
)
def test_names_of_others(key: str) -> None:
    assert not is_secret_key(key)
    assert redact_value(key, "/etc/x") == "/etc/x"


SHOWN = (
    "my.password: expected is a file",
    "the keys 'my.password', 'my.secret' are set",
    "sqlite:////srv/a/m.db",
    "sqlite:////srv/a=1@b/m.db",
    "postgresql://ann@h:5432/hive_4",
    "hdfs://nn:8020/w/t/x=a@b",
    "abfss://container@account.dfs.core.windows.net:443/w/t",
    "s3a://bucket/w/t/token=5/password=6",
    "default.t/token=5: entry 7 is refused",
    "https://h:8443/a?b=1",
    "jdbc:postgresql://ann@h/m",
    "2026-11-27T10:00:00Z",
    "jceks://file/etc/store.jceks",
    "wanted: the header Authorization: Bearer TOKEN",
    "compactor.reads.token.file /x: it cannot be read",
    "password: expected a file of mode 0600",
    "token: /etc/compactor/token-12345",
    "the files <token> and <password> of a directory",
    "<name>fs.s3a.endpoint</name><value>https://h:9000</value>",
    "the cookie has expired",
)


@pytest.mark.parametrize("text", SHOWN)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert redact(text) == text
    assert find_secrets(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://hive:hush-1@db/m",
        "X-Auth-Token: hush-1234",
        "token:hush-1234",
        "my.password := hush-1234",
        "my.password => 'hush-1'",
        "ConfigEntry(key=my.password, value=hush-1234)",
        '{"name": "MY_PASSWORD", "value": "hush-1"}',
        r'"{\"name\": \"MY_PASSWORD\", \"value\": \"hush-1\"}"',
        "{'key': 'my.password', 'value': 'hush-1'}",
        '<property name="my.password" value="hush-1"/>',
        "db.password: hush-1234",
        "[('spark.authenticate.secret', 'hush-1')]",
        "{'password': b'hush-1'}",
        r'"{\"password\": \"hush-1\"}"',
        "postgresql+psycopg://hive:hush-1@db:5432/m?sslmode=require",
        "postgresql://hive:hush-1/2@3'4@db/m",
        "postgresql://hive%3Ahush-1@db/m",
        "postgresql://hive/hush-1@db/m",
        "postgresql://db/m;password=hush-1",
        "mysql://db/m?sslpassword=hush-1&a=b",
        "oracle+oracledb://hive:hush-1@db/x",
        "jdbc:oracle:thin:hive/hush-1@db:1521/x",
        "jdbc:oracle:thin:hive/hush-1@//db:1521/x",
        "jdbc:oracle:oci:hive/hush-1@db",
        "jdbc:sqlserver://db;user=hive;password=hush-1",
        "jdbc:mysql://(host=db,user=hive,password=hush-1)/m",
        "jdbc:mysql://db/m?trustCertificateKeyStorePassword=hush-1",
        "s3a://AKEY:hush-1@bucket/w/t",
        "hdfs://ann:hush-1@nn/w",
        "https://hush-1@example.com/a",
        "jceks://user:hush-1@file/etc/store.jceks",
        "a -Djavax.net.ssl.trustStorePassword=hush-1 b",
        "GET http://b/c?op=OPEN&delegation=hush-1&sig=hush-1",
        "https://maps.example.com/x?key=hush-1",
        "{'spark.hadoop.fs.s3a.secret.key': 'hush-1'}",
        '{"password": "hush-1"}',
        'secret_key = "hush-1 and more"',
        "<name>a.password</name> <value>hush-1</value>",
        "spark-submit --password hush-1 x.py",
        "Authorization: Negotiate hush-1hush-1",
        "curl -H 'authorization: bearer hush-1hush-1hush-1'",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hush-1==",
        "authorities = ['hive:hush-1@nn']",
        "passphrase: hush-1234",
        "the store said apikey: hush-1234",
        "Cookie: hadoop.auth=hush-1; Path=/",
        'Set-Cookie: hadoop.auth="u=ann&p=ann&s=hush-1"; Path=/; HttpOnly',
        "{'Cookie': 'session=hush-1'}",
        "<password>hush-1</password>",
        '<c:password encrypted="no"> hush-1 </c:password>',
        "<password><![CDATA[hush-1]]></password>",
        "<name>a.password</name><description>a b</description><final>true</final> <value>hush-1</value>",
        "-----BEGIN RSA PRIVATE KEY-----\nhush-1\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_forms_of_secrets(text: str) -> None:
    assert "hush" not in redact(text)
    assert is_secret("spark.x", text)
    assert any("hush-1" in secret for secret in find_secrets(text))
    assert redact(redact(text)) == redact(text)
    assert "hush" not in str(CompactorError(f"cannot do it: {text}"))


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "A1" * 8,
        "AIza" + "A1-_a" * 7,
        "ya29." + "a1" * 8,
        "dapi" + "a1" * 16,
        "hvs." + "a1" * 8,
        "ghp_" + "a1" * 18,
        "glpat-" + "a1" * 10,
        "xoxb-" + "12-" * 4,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "BQIAAABG" + "QUJD" * 20,
    ],
)
def test_keys_tokens_and_keytabs_are_known_by_their_form(text: str) -> None:
    assert redact(f"a {text} b") == "a *** b"


def test_what_the_configuration_holds_is_hidden_wherever_it_is() -> None:
    remember_secrets(
        {"storage": {"s3": {"secret": "Tr0ub4dor", "region": "eu-central-1"}}, "urls": ["mysql://u:p4ssw0rd!@h/x"]}
    )
    assert redact("the store said: no such key Tr0ub4dor in eu-central-1, nor p4ssw0rd!") == (
        "the store said: no such key *** in eu-central-1, nor ***"
    )


def test_a_word_that_is_in_every_text_is_not_hidden_everywhere() -> None:
    remember("compactor", "hive", "abc1")
    assert redact("compactor: hive abc1") == "compactor: hive abc1"
    remember("compactor1")
    assert redact("compactor1") == "***"


def test_a_name_stays_in_rows_and_its_credentials_do_not() -> None:
    row = {"partition": "token=5", "location": "s3a://K:hush@b/w/token=5", "files": 3, "numbers": [1.5, None, True]}
    assert redact_plain(row) == {**row, "location": "s3a://K:***@b/w/token=5"}
    assert redact_plain({"secrets": ["a", {"b": "c"}], "token": 7}) == {"secrets": ["***", {"b": "c"}], "token": 7}


def test_a_log_has_no_secret_in_its_message_nor_in_a_trace() -> None:
    def record() -> logging.LogRecord:
        try:
            raise RuntimeError("mysql://u:hush@h")
        except RuntimeError as error:
            return logging.LogRecord(
                "x", logging.ERROR, "f", 1, "see %s", ("password=hush",), (type(error), error, None)
            )

    said = PrintableFormatter("%(message)s").format(record())
    assert "RuntimeError" in said
    assert "hush" not in said


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda value: st.lists(value, max_size=3) | st.dictionaries(st.text(max_size=8), value, max_size=3),
    max_leaves=6,
)


@given(JSON_VALUES)
@example({"key": None, "value": "a"})
@example({"key": ["a"], "value": "a"})
def test_any_json_stays_json(value: Any) -> None:
    shown = redact_plain(value)
    assert json.loads(json.dumps(shown)) == shown
    assert redact_plain(shown) == shown


@given(st.text(max_size=60), st.text(alphabet="abcXYZ019", min_size=6, max_size=12), st.text(max_size=60))
def test_a_password_in_a_url_is_hidden_whatever_is_around_it(before: str, password: str, after: str) -> None:
    text = redact(f"{before} postgresql://u:{password}@h/x {after}")
    assert f":{password}@" not in text


@given(st.text(max_size=5000))
def test_any_text_is_read_in_little_time(text: str) -> None:
    redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "=" * 50_000,
        "a=" * 25_000,
        "a." * 25_000,
        "://a:" * 10_000,
        "--a " * 10_000,
        "'a':" * 9000,
        "cookie: a=" * 5000,
        'cookie: a="' * 5000,
        "<token " * 9000,
        "token: " * 9000,
    ],
)
def test_a_long_text_takes_little_time(text: str) -> None:
    assert redact(text) is not None
