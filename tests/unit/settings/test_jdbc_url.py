from __future__ import annotations

import ssl

import pytest
from pymysql.connections import Connection
from sqlalchemy.dialects.mysql.pymysql import dialect
from sqlalchemy.engine import make_url

from compactor.base.errors import BadSetting
from compactor.settings.jdbc_url import convert_url


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", {}),
        ("ssl=false", {}),
        ("ssl=true", {"sslmode": "verify-full"}),
        ("ssl", {"sslmode": "verify-full"}),
        ("SSL=TRUE", {"sslmode": "verify-full"}),
        ("ssl=true&sslmode=require", {"sslmode": "require"}),
        ("sslMode=Verify-CA&sslRootCert=/ca.pem", {"sslmode": "verify-ca", "sslrootcert": "/ca.pem"}),
        ("ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory", {"sslmode": "require"}),
        ("ssl=true&sslfactory=org.postgresql.ssl.LibPQFactory", {"sslmode": "verify-full"}),
        ("sslcert=/c.pem&sslkey=/k.pk8&sslpassword=x", {"sslcert": "/c.pem", "sslkey": "/k.pk8", "sslpassword": "x"}),
        (
            "channelBinding=require&requireAuth=scram-sha-256",
            {"channel_binding": "require", "require_auth": "scram-sha-256"},
        ),
        ("gssEncMode=require&kerberosServerName=pg", {"gssencmode": "require", "krbsrvname": "pg"}),
        ("currentSchema=hive,%20public", {"options": "-c search_path=hive,public"}),
        ("connectTimeout=10&loginTimeout=5&socketTimeout=0&reWriteBatchedInserts=true", {}),
    ],
)
def test_options_of_postgresql(options: str, wanted: dict[str, str]) -> None:
    found = make_url(convert_url(f"jdbc:postgresql://h/hive?{options}", None))
    assert (dict(found.query), found.host) == (wanted, "h")


#: How a server's certificate is checked: not encrypted, or (required, a trusted authority, its name).
PLAIN, ANY = None, (True, False, False)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("mysql?", (False, False, False)),
        ("mysql?sslMode=PREFERRED", (False, False, False)),
        ("mysql?sslMode=DISABLED", PLAIN),
        ("mysql?useSSL=false", PLAIN),
        ("mysql?useSSL=true", ANY),
        ("mysql?requireSSL=true", ANY),
        ("mysql?sslMode=REQUIRED", ANY),
        ("mysql?sslMode=required&useSSL=false", ANY),
        ("mysql?useSSL=true&verifyServerCertificate=false", ANY),
        ("mysql?useSSL=true&verifyServerCertificate=true", (True, True, False)),
        ("mysql?sslMode=VERIFY_CA", (True, True, False)),
        ("mysql?sslMode=VERIFY_IDENTITY&tlsVersions=TLSv1.2,TLSv1.3", (True, True, True)),
        ("mariadb?useSSL=true", (True, True, True)),
        ("mariadb?useSsl=true&disableSslHostnameVerification=true", (True, True, False)),
        ("mariadb?useSSL=true&trustServerCertificate=true", ANY),
        ("mariadb?sslMode=trust", ANY),
        ("mariadb?sslMode=disable", PLAIN),
        ("mariadb?sslMode=verify-full&serverSslCert={}", (True, True, True)),
        ("mariadb?sslMode=verify-ca&serverSslCert=file://{}", (True, True, False)),
        ("mariadb?serverSslCert={}", (True, True, False)),
    ],
)
def test_encryption_of_mysql_and_mariadb(options: str, wanted: tuple[bool, bool, bool] | None) -> None:
    """By what the driver makes of the URL."""
    kind, _, query = options.format(AUTHORITIES).partition("?")
    _, arguments = dialect().create_connect_args(make_url(convert_url(f"jdbc:{kind}://h/hive?{query}", "u")))
    connection = Connection(**arguments, defer_connect=True)
    if wanted is PLAIN:
        assert not connection.ssl
        return
    context: ssl.SSLContext = connection.ctx
    found = (connection._ssl_required, context.verify_mode is ssl.CERT_REQUIRED, context.check_hostname)
    assert (connection.ssl, found) == (True, wanted)


AUTHORITIES = ssl.get_default_verify_paths().openssl_cafile


@pytest.mark.parametrize(
    ("jdbc", "named"),
    [
        ("postgresql://h/hive?sslMagic=1", "sslMagic"),
        ("postgresql://h/hive?ssl=true&sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory", "sslfactory"),
        ("postgresql://h/hive?sslhostnameverifier=x.Any", "sslhostnameverifier"),
        ("postgresql://h/hive?sslpasswordcallback=x", "sslpasswordcallback"),
        ("postgresql://h/hive?sslmode=strict", "sslmode"),
        ("postgresql://h/hive?sslkey=/k.p12", "sslkey"),
        ("postgresql://h/hive?sslmode=disable&SSLMODE=require", "SSLMODE"),
        ("postgresql://h/hive?socketFactory=x", "socketFactory"),
        ("postgresql://h/hive?gssEncMode=allow", "gssEncMode"),
        ("postgresql://h/hive?targetServerType=preferPrimary", "targetServerType"),
        ("mysql://h/hive?trustCertificateKeyStoreUrl=file:/t.jks", "trustCertificateKeyStoreUrl"),
        ("mysql://h/hive?clientCertificateKeyStoreUrl=file:/t.jks", "clientCertificateKeyStoreUrl"),
        ("mysql://h/hive?sslMode=SOMETIMES", "sslMode"),
        ("mysql://h/hive?useSSL=false&requireSSL=true", "useSSL"),
        ("mysql://h/hive?tlsVersions=TLSv1", "tlsVersions"),
        ("mysql://h/hive?socksProxyHost=p", "socksProxyHost"),
        ("mysql://h/hive?sessionVariables=sql_mode=''", "sessionVariables"),
        ("mariadb://h/hive?trustStore=/t.jks", "trustStore"),
        ("mariadb://h/hive?serverSslCert=classpath:c.pem", "serverSslCert"),
        ("mariadb://h/hive?serverSslCert=-----BEGIN%20CERTIFICATE-----hush", "serverSslCert"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_name(jdbc: str, named: str) -> None:
    with pytest.raises(BadSetting, match=f"option {named} cannot be carried over: ") as refused:
        convert_url(f"jdbc:{jdbc}&password=hush", "u")
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("jdbc", "user", "wanted"),
    [
        ("jdbc:postgresql://h:5432/hive", "hive", "postgresql+psycopg://hive@h:5432/hive"),
        ("jdbc:postgresql://h/hive?user=a%40b&password=p%2Fq", None, "postgresql+psycopg://a%40b:p%2Fq@h/hive"),
        (
            "jdbc:postgresql://[::1]:5432/hive?ApplicationName=x&tcpKeepAlive=true",
            "u",
            "postgresql+psycopg://u@[::1]:5432/hive",
        ),
        (
            "jdbc:postgresql://a,b:5433/hive?targetServerType=primary",
            "u",
            "postgresql+psycopg://u@/hive?host=a%3A5432&host=b%3A5433&target_session_attrs=primary",
        ),
        (
            "jdbc:mysql://h:3306/hive?createDatabaseIfNotExist=true&characterEncoding=UTF-8",
            "u/v",
            "mysql+pymysql://u%2Fv@h:3306/hive",
        ),
        (" jdbc:mariadb://h/hive ", None, "mysql+pymysql://h/hive"),
    ],
)
def test_a_jdbc_url_is_converted(jdbc: str, user: str | None, wanted: str) -> None:
    assert convert_url(jdbc, user) == wanted
    assert make_url(wanted).database == "hive"


@pytest.mark.parametrize(
    "jdbc",
    [
        "jdbc:derby:;databaseName=m",
        "jdbc:oracle:thin:@h:1521/x?password=secret",
        "jdbc:oracle:thin:hive/secret@h:1521/x",
        "jdbc:oracle:thin:hive/secret@//h:1521/x",
        "jdbc:sqlserver://h;user=u;password=secret",
        "jdbc:secret",
        "postgresql://u:secret@h/hive",
        "jdbc:mysql:h",
    ],
)
def test_an_unknown_database_is_refused_without_anything_that_may_be_a_password(jdbc: str) -> None:
    with pytest.raises(BadSetting, match=r"expected: jdbc:postgresql") as refused:
        convert_url(jdbc, None)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("host", ["[", "]", "[::1", "h[x]", "u:hush@h", "h@x", "", "h:port", "(host=h)", "h\n"])
def test_a_host_that_cannot_be_read_is_refused(host: str) -> None:
    for kind in ("postgresql", "mysql", "mariadb"):
        with pytest.raises(BadSetting, match="the host of the") as refused:
            convert_url(f"jdbc:{kind}://{host}", None)
        assert "hush" not in str(refused.value)


def test_several_hosts_of_mysql_are_refused() -> None:
    with pytest.raises(BadSetting, match="names several hosts"):
        convert_url("jdbc:mysql://a,b/hive", None)
