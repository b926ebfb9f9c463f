from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compactor.base.errors import BadSetting, NotSupported
from compactor.site.connection import PASSWORD, PASSWORD_FILE, metastore_url

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "jceks"
STORES = FIXTURES
URL = "postgresql+psycopg://hive@localhost:5432/metastore"
CLEAR = {"javax.jdo.option.ConnectionPassword": "clear"}


@pytest.fixture(scope="module", autouse=True)
def _private_stores(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The stores as Hadoop makes them: a checkout has other modes."""
    global STORES
    STORES = tmp_path_factory.mktemp("stores")
    for path in FIXTURES.iterdir():
        shutil.copyfile(path, STORES / path.name)
        (STORES / path.name).chmod(0o600)


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
    for path in (first, second):
        path.chmod(0o600)
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


def test_a_jdbc_url_in_place_of_ours() -> None:
    """Its options are translated like those of ``hive-site.xml``, and so are they refused."""
    site = {"javax.jdo.option.ConnectionUserName": "hive", **CLEAR}
    assert found("jdbc:mysql://db:3306/hive?sslMode=REQUIRED", site) is not None
    assert found("jdbc:postgresql://db:5432/hive", site) == "postgresql+psycopg://hive:clear@db:5432/hive"
    with pytest.raises(BadSetting, match=r"url is for 'jdbc:oracle:thin:…'; expected: jdbc:postgresql") as refused:
        found("jdbc:oracle:thin:hive/geheim@db")
    assert "geheim" not in str(refused.value)
    with pytest.raises(BadSetting, match=r"option nonsense cannot be carried over"):
        found("jdbc:mysql://db/hive?nonsense=1")


def test_the_password_of_the_credential_store() -> None:
    site = stored("locked.jceks")
    assert found(site=site, environment={"HADOOP_CREDSTORE_PASSWORD": "secret1"}) == URL.replace("@", ":other@")
    with pytest.raises(BadSetting, match=r"locked\.jceks: the password is wrong"):
        found(site=site)


def test_the_password_file_of_the_credential_store(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("secret1\n")
    (tmp_path / "word").chmod(0o600)
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


FAR = "postgresql://hive@db.example/metastore"


@pytest.mark.parametrize(
    "url",
    [
        FAR,
        f"{FAR}?sslmode=prefer",
        "postgresql://hive@/metastore?host=db.example",
        "postgresql://hive@/metastore?host=localhost,db.example:5433",
        "postgresql://hive@localhost/metastore?hostaddr=10.0.0.1",
        "mysql+pymysql://hive@db.example/metastore",
        "mysql+pymysql://hive@db.example/metastore?ssl_disabled=true",
        "mariadb+pymysql://hive@10.0.0.1/metastore",
        # PyMySQL takes any text for true
        *(f"mysql+pymysql://hive@db.example/metastore?ssl_disabled={text}" for text in ("false", "1", "TRUE", "no")),
        "mysql+pymysql://hive@db.example/metastore?ssl_disabled=1&ssl_ca=/ca.pem",
        "mysql+pymysql://hive@db.example/metastore?ssl_key_password=k",
        "mysql+pymysql://hive@db.example/metastore?ssl_mode=DISABLED",
        # files of the drivers name hosts, too
        "postgresql://hive@/metastore?service=far",
        "postgresql://hive@localhost/metastore?service=far",
        "postgresql://hive@/metastore?conninfo=host%3Ddb.example",
        "mysql+pymysql://hive@/metastore?read_default_file=/etc/my.cnf",
    ],
)
def test_the_password_of_a_file_is_not_sent_without_tls(tmp_path: Path, url: str) -> None:
    path = tmp_path / "p"
    path.write_text("secret")
    path.chmod(0o600)
    with pytest.raises(BadSetting, match=r"the password of a file is not sent to .* without TLS") as raised:
        found(url, file=path)
    assert "secret" not in str(raised.value)
    with pytest.raises(BadSetting, match="without TLS"):
        found(url, site=stored("hive.jceks"))
    assert "hive:p@" in (found(url, environment={PASSWORD: "p"}) or "")


@pytest.mark.parametrize(
    "url",
    [
        f"{FAR}?sslmode=verify-full",
        f"{FAR}?sslmode=require",
        "postgresql://hive@127.0.0.1/metastore",
        "postgresql://hive@[::1]/metastore",
        "postgresql://hive@/metastore",
        "postgresql://hive@/metastore?host=/var/run/postgresql",
        "mysql+pymysql://hive@db.example/metastore?ssl_ca=/ca.pem",
        "mysql+pymysql://hive@db.example/metastore?ssl_check_hostname=false",
        "mysql+pymysql://hive@localhost/metastore",
    ],
)
def test_it_is_sent_by_tls_and_on_this_machine(tmp_path: Path, url: str) -> None:
    path = tmp_path / "p"
    path.write_text("secret")
    path.chmod(0o600)
    assert ":secret@" in (found(url, file=path) or "")


@pytest.mark.parametrize(
    ("url", "name", "value"),
    [
        ("postgresql://hive@/metastore", "PGHOST", "db.example"),
        ("postgresql://hive@localhost/metastore", "PGHOSTADDR", "10.0.0.1"),
        ("postgresql://hive@/metastore?host=localhost", "PGHOSTADDR", "127.0.0.1,10.0.0.1"),
        ("postgresql://hive@localhost/metastore", "PGSERVICE", "far"),
    ],
)
def test_the_environment_of_libpq_may_lead_to_another_machine(tmp_path: Path, url: str, name: str, value: str) -> None:
    path = tmp_path / "p"
    path.write_text("secret")
    path.chmod(0o600)
    with pytest.raises(BadSetting, match="without TLS"):
        found(url, file=path, environment={name: value})
    assert ":secret@" in (
        found(f"{url}{'&' if '?' in url else '?'}sslmode=require", file=path, environment={name: value}) or ""
    )
    assert ":secret@" in (found("postgresql://hive@localhost/m", file=path, environment={"PGHOST": "db.example"}) or "")
    assert ":secret@" in (found("mysql+pymysql://hive@/m", file=path, environment={name: value}) or "")


def test_a_file_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    """Neither a password, nor Hadoop's credential store, nor the password of that."""
    path = tmp_path / "p"
    shutil.copyfile(STORES / "locked.jceks", path)
    path.chmod(0o644)
    wide = rf"{path}: has mode 0644; expected: 0600"
    with pytest.raises(BadSetting, match=wide):
        found(file=path)
    with pytest.raises(BadSetting, match=wide):
        found(environment={PASSWORD_FILE: str(path)})
    with pytest.raises(BadSetting, match=wide):
        found(site={"hadoop.security.credential.provider.path": f"localjceks://file{path}"})
    key = "hadoop.security.credstore.java-keystore-provider.password-file"
    with pytest.raises(BadSetting, match=wide):
        found(site={**stored("locked.jceks"), key: str(path)})
