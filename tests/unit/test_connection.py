from __future__ import annotations

from pathlib import Path

import pytest

from compactor.connection import PASSWORD, PASSWORD_FILE, metastore_url
from compactor.errors import BadSetting, NotSupported

STORES = Path(__file__).resolve().parents[1] / "fixtures" / "jceks"
URL = "postgresql+psycopg://hive@db:5432/metastore"
CLEAR = {"javax.jdo.option.ConnectionPassword": "clear"}


def stored(name: str) -> dict[str, str]:
    return {"hadoop.security.credential.provider.path": f"localjceks://file{STORES / name}"}


def found(
    url: str | None = URL,
    site: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    file: Path | None = None,
) -> str | None:
    return metastore_url(url, password_file=file and str(file), site=site or {}, environment=environment or {})


def test_the_order_of_passwords(tmp_path: Path) -> None:
    """In the URL > environment > file of the environment > file of the toml > credential store > in the clear."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("of/the:environment\n")
    second.write_text("of the toml")
    site = {**CLEAR, **stored("hive.jceks")}
    environment = {PASSWORD: "p", PASSWORD_FILE: str(first)}

    def password(**given: object) -> str:
        url = found(**given)  # type: ignore[arg-type]
        assert url is not None
        return url.removeprefix("postgresql+psycopg://hive").partition("@")[0]

    assert password(url=URL.replace("hive@", "hive:x@"), site=site, environment=environment, file=second) == ":x"
    assert password(site=site, environment=environment, file=second) == ":p"
    assert password(site=site, environment={PASSWORD_FILE: str(first)}, file=second) == ":of%2Fthe%3Aenvironment"
    assert password(site=site, file=second) == ":of the toml"
    assert password(site=site) == ":p%C3%A4 ss%3Aw%2Ford"
    assert password(site=CLEAR) == ":clear"
    assert password() == ""


def test_a_url_without_user_is_left_as_it_is() -> None:
    for url in ("sqlite:////w/metastore.db", "postgresql://db/metastore"):
        assert found(url, CLEAR, {PASSWORD: "p"}) == url


def test_hive_site_alone_names_the_database() -> None:
    site = {
        "javax.jdo.option.ConnectionURL": "jdbc:postgresql://db:5432/metastore?sslmode=require",
        "javax.jdo.option.ConnectionUserName": "hive",
        **CLEAR,
    }
    assert found(None, site) == "postgresql+psycopg://hive:clear@db:5432/metastore?sslmode=require"
    assert found(None) is None


def test_the_password_of_the_credential_store() -> None:
    site = stored("locked.jceks")
    assert found(site=site, environment={"HADOOP_CREDSTORE_PASSWORD": "secret1"}) == URL.replace("@", ":other@")
    with pytest.raises(BadSetting, match=r"locked\.jceks: the password is wrong"):
        found(site=site)


def test_the_password_file_of_the_credential_store(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("secret1\n")
    key = "hadoop.security.credstore.java-keystore-provider.password-file"
    assert found(site={**stored("locked.jceks"), key: str(tmp_path / "word")}) == URL.replace("@", ":other@")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"password_file .*/gone: cannot be read: No such file"):
        found(file=tmp_path / "gone")
    with pytest.raises(NotSupported, match=r"jceks://hdfs@nn/hive\.jceks cannot be read here"):
        found(site={"hadoop.security.credential.provider.path": "jceks://hdfs@nn/hive.jceks"})


@pytest.mark.parametrize("url", ["postgresql://h[/hive", "postgresql://ann@[::1/hive", "postgresql://ann@h]/hive", "["])
def test_a_bracket_ends_nothing(url: str) -> None:
    """Whoever opens it says what is wrong with it."""
    assert metastore_url(url, password_file=None, site={}, environment={}) == url


def test_a_password_with_brackets_is_kept() -> None:
    url = metastore_url("postgresql://ann@[::1]/hive", password_file=None, site={}, environment={PASSWORD: "a[b]c@/:"})
    assert url == "postgresql://ann:a%5Bb%5Dc%40%2F%3A@[::1]/hive"
    assert metastore_url("postgresql://ann:a[b@h/hive", password_file=None, site={}, environment={}) is not None
