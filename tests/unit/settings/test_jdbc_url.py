from __future__ import annotations

import pytest

from compactor.errors import BadSetting
from compactor.settings.jdbc_url import url_of


@pytest.mark.parametrize(
    ("jdbc", "user", "wanted"),
    [
        ("jdbc:postgresql://h:5432/hive", "hive", "postgresql+psycopg://hive@h:5432/hive"),
        (
            "jdbc:postgresql://h/hive?user=a%40b&sslmode=require&ssl=true",
            None,
            "postgresql+psycopg://a%40b@h/hive?sslmode=require",
        ),
        (
            "jdbc:mysql://h:3306/hive?createDatabaseIfNotExist=true&useSSL=false",
            "u/v",
            "mysql+pymysql://u%2Fv@h:3306/hive",
        ),
        (" jdbc:mariadb://h/hive ", None, "mysql+pymysql://h/hive"),
    ],
)
def test_a_jdbc_url_is_converted(jdbc: str, user: str | None, wanted: str) -> None:
    assert url_of(jdbc, user) == wanted


@pytest.mark.parametrize(
    "jdbc",
    [
        "jdbc:derby:;databaseName=m",
        "jdbc:oracle:thin:@h:1521/x?password=secret",
        "postgresql://h/hive",
        "jdbc:mysql:h",
    ],
)
def test_an_unknown_database_is_refused_without_its_parameters(jdbc: str) -> None:
    with pytest.raises(BadSetting, match=r"wanted: jdbc:postgresql") as refused:
        url_of(jdbc, None)
    assert "secret" not in str(refused.value)
