"""A ``compactor.toml`` that lies in the current directory and that somebody else made, by a real second user."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from compactor.base.errors import BadSetting
from compactor.base.private_files import why_not_secret
from compactor.cli.program import program
from compactor.site.deployment import configure, open_stores
from tests.support import second_user

pytestmark = pytest.mark.skipif(not second_user.may_act(), reason="needs root, or sudo without a password")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory of this user that others may reach."""
    with tempfile.TemporaryDirectory(prefix="compactor-config-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def server() -> Iterator[tuple[int, list[bytes]]]:
    """A server of the second user's, and what it is sent."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        is_over = threading.Event()

        def serve() -> None:
            while not is_over.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                with connection:
                    received.append(connection.recv(4096))

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1], received
        is_over.set()
        thread.join()


def planted(place: Path, text: str) -> Path:
    """Lets the second user write a compactor.toml into a directory of theirs."""
    place.chmod(0o777)
    made = second_user.act('mkdir "$1" && printf %s "$2" > "$1/compactor.toml"', str(place / "theirs"), text)
    assert made.returncode == 0, made.stderr
    place.chmod(0o755)
    return place / "theirs"


def test_no_secret_is_sent_to_a_server_that_somebody_else_named(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[int, list[bytes]]
) -> None:
    """`compactor doctor` sent the user's private file there."""
    port, received = server
    secret = tmp_path / "id"
    secret.write_text("the user's own")
    secret.chmod(0o600)
    text = f'[metastore.default]\nurl = "postgresql://x@127.0.0.1:{port}/m"\npassword_file = "{secret}"\n'
    monkeypatch.chdir(planted(shared, text))
    for command in (["doctor"], ["metastore", "info"], ["sql", "SHOW DATABASES"], ["run", "initiator"]):
        done = CliRunner().invoke(program, command)
        assert done.exit_code != 0
        assert "nobody named this file, and" in done.output
    assert received == []


SECTIONS = {
    "mode": '[metastore.default]\nmode = "clean"\n',
    "memory": '[metastore.default.settings]\n"compactor.memory" = "/tmp/theirs"\n',
    "storage": '[storage.s3]\nendpoint_url = "http://theirs"\n',
}


@pytest.mark.parametrize("section", SECTIONS)
def test_nothing_of_it_counts_beside_a_url_of_the_environment(
    shared: Path, monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    """Its mode, memory and stores did."""
    monkeypatch.chdir(planted(shared, SECTIONS[section]))
    with pytest.raises(BadSetting, match="belongs to user"):
        configure(environment={"COMPACTOR_METASTORE_URL": "sqlite:////x.db"})
    with pytest.raises(BadSetting, match="belongs to user"):
        open_stores(environment={})


def test_a_link_of_somebody_else_counts_no_more_than_their_file(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[metastore.default]\nmode = "clean"\n')
    tmp_path.chmod(0o755)
    shared.chmod(0o1777)
    assert second_user.act('ln -s "$1" "$2/compactor.toml"', str(own), str(shared)).returncode == 0
    shared.chmod(0o755)
    monkeypatch.chdir(shared)
    with pytest.raises(BadSetting, match="is a link of user"):
        configure(environment={"COMPACTOR_METASTORE_URL": "sqlite:////x.db"})


@pytest.mark.parametrize("way", ["link", "folder/own.toml"])
def test_a_link_of_somebody_else_on_the_way_counts_no_more(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """They would choose which of the user's own files it is."""
    (tmp_path / "own.toml").write_text('[metastore.default]\nmode = "clean"\n')
    tmp_path.chmod(0o755)
    theirs = planted(shared, "")
    script = 'ln -s "$1/own.toml" "$2/link"; ln -s "$1" "$2/folder"'
    assert second_user.act(script, str(tmp_path), str(theirs)).returncode == 0
    (shared / "compactor.toml").symlink_to(theirs / way)
    monkeypatch.chdir(shared)
    with pytest.raises(BadSetting, match=f"{theirs} belongs to user"):
        configure(environment={"COMPACTOR_METASTORE_URL": "sqlite:////x.db"})


@pytest.mark.parametrize("target", ["compactor.toml", "."])
def test_a_group_of_others_may_not_write_it(shared: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """``nogroup`` has the second user; with a umask of 002 files have the mode 0664, and directories 0775."""
    (shared / "compactor.toml").write_text(SECTIONS["mode"])
    (shared / target).chmod(0o775)
    command = ["chgrp", "nogroup", str(shared / target)]
    subprocess.run(command if os.geteuid() == 0 else ["sudo", "-n", *command], check=True)
    monkeypatch.chdir(shared)
    with pytest.raises(BadSetting, match=r"may be written by others \(mode 0775\): group \d+ "):
        configure(environment={"COMPACTOR_METASTORE_URL": "sqlite:////x.db"})
    (shared / target).chmod(0o755)
    assert configure(environment={"COMPACTOR_METASTORE_URL": "sqlite:////x.db"}).settings.mode == "clean"


def test_one_that_is_named_counts(
    shared: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever names it says that it is to be believed; the log says which one it was, and the doctor whose it is."""
    caplog.set_level(logging.INFO)
    theirs = planted(shared, SECTIONS["mode"])
    monkeypatch.chdir(shared)
    found = configure(
        config_path=str(theirs / "compactor.toml"), environment={"COMPACTOR_METASTORE_URL": "sqlite:////x.db"}
    )
    assert found.settings.mode == "clean"
    assert f"configuration: {theirs}/compactor.toml, as it was named" in caplog.text
    done = CliRunner().invoke(program, ["--config", str(theirs / "compactor.toml"), "doctor"])
    assert f"{theirs}/compactor.toml: belongs to user" in done.output


def test_the_secret_of_somebody_else_is_not_used(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that they may change leads this service to a database of theirs."""
    shared.chmod(0o777)
    made = second_user.act('printf x > "$1/password"; chmod 600 "$1/password"', str(shared))
    assert made.returncode == 0, made.stderr
    environment = {
        "COMPACTOR_METASTORE_URL": "postgresql://hive@localhost/m",
        "COMPACTOR_METASTORE_PASSWORD_FILE": str(shared / "password"),
    }
    monkeypatch.chdir(shared)
    with pytest.raises(BadSetting, match=r"password_file .*belongs to user \S+; expected"):
        configure(environment=environment)


def test_a_secret_that_somebody_elses_link_chooses_is_not_used(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would choose which of the user's private files is sent to the database."""
    (shared / "id").write_text("the user's own")
    (shared / "id").chmod(0o600)
    shared.chmod(0o777)
    assert second_user.act('ln -s id "$1/password"', str(shared)).returncode == 0
    environment = {
        "COMPACTOR_METASTORE_URL": "postgresql://hive@localhost/m",
        "COMPACTOR_METASTORE_PASSWORD_FILE": str(shared / "password"),
    }
    monkeypatch.chdir(shared)
    with pytest.raises(BadSetting, match=r"is reached by .*/password, a link of user \S+; expected"):
        configure(environment=environment)
    assert "a link of user" in (why_not_secret(shared / "password") or "")


def test_the_doctor_names_each_file_that_is_too_wide(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them at once, although the first ends everything else."""
    in_environment = {
        "HADOOP_TOKEN_FILE_LOCATION": "container_tokens",
        "KRB5_CLIENT_KTNAME": "client.keytab",
        "AIRFLOW__COMPACTOR__KEYTAB": "airflow.keytab",
    }
    in_files = (
        "password",
        "token",
        "word",
        "store.jceks",
        "k.keytab",
        "cert.key",
        "google.json",
        "spark.keytab",
        "other",
    )
    names = (*in_files, *in_environment.values())
    for variable, name in in_environment.items():
        monkeypatch.setenv(variable, str(shared / name))
    for name in names:
        (shared / name).write_text("0123456789abcdef0")
        (shared / name).chmod(0o644)
    conf = shared / "conf"
    conf.mkdir()
    site = {
        "hadoop.security.credential.provider.path": f"localjceks://file{shared}/store.jceks",
        "hadoop.security.credstore.java-keystore-provider.password-file": f"{shared}/word",
    }
    properties = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>" for key, value in site.items()
    )
    (conf / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    (conf / "hive-site.xml").chmod(0o666)
    (shared / "compactor.toml").write_text(
        f'[metastore.default]\nurl = "postgresql://hive@localhost/m"\npassword_file = "{shared}/password"\n'
        f'hive_conf = "{conf}"\n[metastore.default.settings]\n"compactor.reads.token.file" = "{shared}/token"\n'
        f'"compactor.spark.kerberos.keytab" = "{shared}/spark.keytab"\n'
        f'[metastore.other]\npassword_file = "{shared}/other"\n'
        f'[storage.hdfs]\nkerberos = true\nkeytab = "{shared}/k.keytab"\n'
        f'session_cert = ["{shared}/cert.pem", "{shared}/cert.key"]\n[storage.gs]\ntoken = "{shared}/google.json"\n'
    )
    monkeypatch.chdir(shared)
    done = CliRunner().invoke(program, ["doctor"])
    assert done.exit_code == 1
    for name in (*names, "conf/hive-site.xml"):
        assert f"{shared}/{name}: " in done.output, name
    for name in names:
        os.chmod(shared / name, 0o600)
    (conf / "hive-site.xml").chmod(0o644)
    again = CliRunner().invoke(program, ["doctor"])
    assert "nobody else may write the configuration or read a secret (14 files)" in again.output


@pytest.mark.parametrize("verbose", [True, False])
def test_every_command_says_which_file_it_used(shared: Path, verbose: bool) -> None:
    (shared / "compactor.toml").write_text('[metastore.default]\nurl = "sqlite:////nowhere/x.db"\n')
    command = [shutil.which("compactor") or "compactor", *(["-v"] if verbose else []), "metastore", "info"]
    done = subprocess.run(command, cwd=shared, capture_output=True, text=True, check=False)
    assert (f"configuration: {shared}/compactor.toml, found in the current directory" in done.stderr) is verbose
