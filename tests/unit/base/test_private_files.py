from __future__ import annotations

import grp
import os
import pwd
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from compactor.base import private_files
from compactor.base.errors import BadSetting
from compactor.base.identities import user_name
from compactor.base.private_files import (
    is_here,
    must_be_secret,
    read_secret,
    read_secret_text,
    read_unnamed_configuration,
    why_not_secret,
    why_not_trusted,
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that nobody else may write."""
    made = tmp_path / "place"
    made.mkdir(mode=0o755)
    return made


GROUP = os.getegid()  #: the group that new files here have
OWNER = os.geteuid()

List = Callable[..., None]


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> List:
    """Lets the databases list this user, and others by name, user and primary group, with members of ``GROUP``.

    Until it is called, ``GROUP`` has another user.
    """
    monkeypatch.setattr(private_files, "_NAME_SERVICES", tmp_path / "nsswitch.conf")
    monkeypatch.setattr(private_files, "_SSSD_SOCKET", tmp_path / "sssd")

    def replace(*others: tuple[str, int, int], members: tuple[str, ...] = (), own: int | None = GROUP) -> None:
        users = [*([("me", OWNER, own)] if own is not None else []), *others]
        entries = [pwd.struct_passwd((name, "x", uid, gid, "", "/", "")) for name, uid, gid in users]
        groups = [grp.struct_group(("mine", "x", GROUP, members)), grp.struct_group(("all", "x", GROUP + 1, ["ann"]))]
        monkeypatch.setattr(pwd, "getpwall", lambda: entries)
        monkeypatch.setattr(grp, "getgrall", lambda: groups)

    replace(("ann", 4242, GROUP))
    return replace


def made(path: Path, mode: int, content: str = "x") -> Path:
    path.write_text(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o600, 0o444])
def test_configuration_that_nobody_else_may_write_is_read(place: Path, mode: int) -> None:
    assert read_unnamed_configuration(made(place / "compactor.toml", mode)) == "x"
    assert why_not_trusted(place / "compactor.toml") is None


def test_configuration_that_is_no_text_is_named(place: Path) -> None:
    (place / "compactor.toml").write_bytes(b"a\xff")
    with pytest.raises(BadSetting, match=r"compactor\.toml: is not UTF-8 at byte 1"):
        read_unnamed_configuration(place / "compactor.toml")


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o777])
def test_configuration_that_others_may_write_is_refused(place: Path, mode: int) -> None:
    path = made(place / "compactor.toml", mode)
    with pytest.raises(BadSetting, match=rf"nobody named this file, and {path} may be written by others \(mode 0"):
        read_unnamed_configuration(path)
    assert f"chmod go-w {path}" in (why_not_trusted(path) or "")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_directory_that_others_may_write_is_refused(place: Path, mode: int) -> None:
    path = made(place / "compactor.toml", 0o644)
    place.chmod(mode)
    with pytest.raises(BadSetting, match=rf"{place} may be written by others"):
        read_unnamed_configuration(path)


def test_the_group_of_its_owner_alone_may_write(place: Path, listed: List) -> None:
    """As with a umask of 002, where each user has a group of their own."""
    listed(("ann", 4242, GROUP + 1), members=("me",))
    place.chmod(0o775)
    path = made(place / "compactor.toml", 0o664)
    assert read_unnamed_configuration(path) == "x"
    assert why_not_trusted(path) is None
    path.chmod(0o666)
    with pytest.raises(BadSetting, match=r"compactor\.toml may be written by others \(mode 0666\); expected"):
        read_unnamed_configuration(path)


@pytest.mark.parametrize("target", ["compactor.toml", "."])
def test_a_group_with_another_member_is_somebody_else(place: Path, listed: List, target: str) -> None:
    path = made(place / "compactor.toml", 0o644)
    os.chmod(place / target, 0o775)
    listed(("ann", 4242, GROUP))
    with pytest.raises(BadSetting, match=rf"\(mode 0775\): group {GROUP} has other members \(ann\); .*chmod go-w /"):
        read_unnamed_configuration(path)
    listed(("ann", 4242, GROUP + 1), members=("me", "ann", "bob"))
    with pytest.raises(BadSetting, match=rf"group {GROUP} has other members \(ann, bob\)"):
        read_unnamed_configuration(path)


def test_a_group_that_is_not_the_owners_own_is_somebody_else(place: Path, listed: List) -> None:
    path = made(place / "compactor.toml", 0o664)
    listed(own=GROUP + 1)
    with pytest.raises(BadSetting, match=f"group {GROUP} is not the primary group of user {user_name(OWNER)}"):
        read_unnamed_configuration(path)


def test_databases_that_need_not_list_everybody_prove_nothing(place: Path, listed: List, tmp_path: Path) -> None:
    """LDAP lists nobody unless it is told to."""
    path = made(place / "compactor.toml", 0o664)
    listed(own=None)
    with pytest.raises(BadSetting, match=f"does not list user {OWNER}"):
        read_unnamed_configuration(path)
    listed()
    services = tmp_path / "nsswitch.conf"
    for text in ("passwd: files systemd\n", "group: files [!UNAVAIL=return] compat # ldap\n", "hosts: files dns\n"):
        services.write_text(text)
        assert read_unnamed_configuration(path) == "x"
    for text in ("passwd: files ldap", "group:files  winbind", "initgroups: sss", "  passwd : sss files"):
        services.write_text(f"{text}\n")
        (tmp_path / "sssd").touch()
        with pytest.raises(
            BadSetting, match=r"nsswitch\.conf names '(ldap|winbind|sss)', which need not list everybody"
        ):
            read_unnamed_configuration(path)
        assert f"chmod go-w {path}" in (why_not_trusted(path) or "")
    (tmp_path / "sssd").unlink()
    services.write_text("passwd: sss files systemd\n")
    assert read_unnamed_configuration(path) == "x"  # RHEL names it, whether or not it runs


def test_an_access_control_list_may_name_anybody(place: Path, listed: List, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mask stands in the place of the group's mode."""
    path = made(place / "compactor.toml", 0o664)
    listed()
    entries = ((0x01, 6, 2**32 - 1), (0x02, 6, 4242), (0x04, 6, 2**32 - 1), (0x10, 6, 2**32 - 1), (0x20, 4, 2**32 - 1))
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", value)
    with pytest.raises(BadSetting, match=r"\(mode 0664\): it has an access control list"):
        read_unnamed_configuration(path)


def test_a_link_leads_to_what_is_checked_too(place: Path, tmp_path: Path) -> None:
    """The target, and the directory that it is in."""
    far = tmp_path / "far"
    far.mkdir()
    target = made(far / "real.toml", 0o644)
    (place / "compactor.toml").symlink_to(target)
    assert read_unnamed_configuration(place / "compactor.toml") == "x"
    far.chmod(0o777)
    with pytest.raises(BadSetting, match=rf"{far} may be written by others"):
        read_unnamed_configuration(place / "compactor.toml")
    far.chmod(0o755)
    target.chmod(0o666)
    with pytest.raises(BadSetting, match=rf"{target} may be written by others"):
        read_unnamed_configuration(place / "compactor.toml")


@pytest.mark.parametrize("folder", ["", "sub"])
def test_every_link_on_the_way_is_checked(place: Path, tmp_path: Path, folder: str) -> None:
    """Whoever may exchange one of them chooses which file of the user is read."""
    made(tmp_path / "real.toml", 0o644)
    sub = tmp_path / "middle" / "sub"
    sub.mkdir(parents=True)
    (sub / "up").symlink_to("../..")
    (tmp_path / "middle" / "next").symlink_to("sub/up/real.toml")
    (place / "compactor.toml").symlink_to("../middle/next")
    assert read_unnamed_configuration(place / "compactor.toml") == "x"
    directory = tmp_path / "middle" / folder
    directory.chmod(0o777)
    with pytest.raises(BadSetting, match=f"{directory} may be written by others"):
        read_unnamed_configuration(place / "compactor.toml")


@pytest.mark.parametrize("kind", ["pipe", "directory", "dangling"])
def test_nobody_waits_for_what_is_no_file(place: Path, kind: str) -> None:
    path = place / "compactor.toml"
    {"pipe": os.mkfifo, "directory": os.mkdir, "dangling": lambda path: path.symlink_to("gone")}[kind](path)  # type: ignore[operator]
    with pytest.raises(BadSetting, match=r"compactor\.toml"):
        read_unnamed_configuration(path)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o440])
def test_a_secret_of_a_narrow_mode_is_read(place: Path, mode: int) -> None:
    path = made(place / "password", mode)
    assert read_secret(path, "password_file") == b"x"
    must_be_secret(path, "keytab")


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o601, 0o777, 0o650])
def test_a_secret_that_others_may_read_is_refused(place: Path, mode: int) -> None:
    path = made(place / "password", mode)
    wanted = rf"password_file {path}: has mode {mode:04o}; expected: 0600, or 0640"
    with pytest.raises(BadSetting, match=wanted):
        read_secret(path, "password_file")
    with pytest.raises(BadSetting, match=r"keytab .* has mode"):
        must_be_secret(path, "keytab")
    assert "has mode" in (why_not_secret(path) or "")


def test_a_secret_that_is_no_file_is_refused(place: Path) -> None:
    os.mkfifo(place / "pipe", mode=0o600)
    for path in (place / "pipe", place):
        with pytest.raises(BadSetting, match="is not a regular file"):
            read_secret(path, "password_file")


def test_a_secret_in_the_place_of_its_file_is_not_shown(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for secret in ("hush-1234", "hush/1234", "hush" * 100):
        with pytest.raises(
            BadSetting, match=r"^password_file: cannot be read: .*; expected: the absolute path"
        ) as raised:
            read_secret(Path(secret), "password_file")
        assert "hush" not in str(raised.value)
    with pytest.raises(BadSetting, match=f"^password_file {place}/gone: cannot be read: No such file"):
        read_secret(place / "gone", "password_file")


def test_a_secret_that_is_no_text_is_named_and_not_shown(place: Path) -> None:
    (place / "password").write_bytes(b"hush\xff")
    (place / "password").chmod(0o600)
    with pytest.raises(BadSetting, match=r"password_file /.*: is not UTF-8 at byte 4; expected: text$"):
        read_secret_text(place / "password", "password_file")


def test_what_is_not_there_is_left_to_who_reads_it(place: Path) -> None:
    must_be_secret(place / "gone", "keytab")
    assert why_not_secret(place / "gone") is None
    assert why_not_trusted(place / "gone") is None


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "/var/run", "@x"])
def test_this_machine(host: str) -> None:
    assert is_here(host)


@pytest.mark.parametrize(
    "host", ["db", "localhost.example.com", "10.0.0.1", "0.0.0.0", "::", "127.0.0.1.evil.example", ""]
)
def test_another_machine(host: str) -> None:
    assert not is_here(host)
