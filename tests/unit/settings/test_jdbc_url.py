from __future__ import annotations

import pytest
from sqlalchemy.engine import make_url

from compactor.base.errors import BadSetting
from compactor.settings.jdbc_url import convert_url


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
