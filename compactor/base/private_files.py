"""Reads a configuration file only if nobody else can write it, and secrets only if nobody reads them."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

from compactor.base.errors import BadSetting
from compactor.base.identities import process_user, user_name
from compactor.base.printable import first_few

CLIENT_KEYTAB = "KRB5_CLIENT_KTNAME"  #: names the keytab by which the Kerberos library logs a process in
#: A variable with which Python imports nothing from the current directory, where anybody may have left a module
SAFE_PATH = "PYTHONSAFEPATH"
_NAME_SERVICES = Path("/etc/nsswitch.conf")
_SSSD_SOCKET = Path("/var/lib/sss/pipes/nss")  #: RHEL names ``sss`` everywhere, also where no SSSD runs
_LISTED = frozenset({"files", "compat", "systemd"})  #: sources of users and groups that list all of them
_MOST_LINKS = 40  #: on the way to a file, as for Linux
_FEW = 3  #: members of a group that a message names
_TOO_WIDE = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO  #: of a secret, whose group may read it


def read_unnamed_configuration(path: Path) -> str:
    """Returns the text of a configuration file at a default place, which no user has named.

    The file, its directory, and each link on the way to it with the directory of that link, must belong to this user or to
    root, and nobody else may write them. A group without members other than the owner does not count as somebody else.

    Raises:
        BadSetting: somebody else may have written it, or it cannot be read.
    """
    advice = "if it is yours, name it (--config, COMPACTOR_CONFIG) or correct that; else work in another directory"
    with _reading(path, "configuration") as file:
        target = os.path.realpath(path)
        for place in (os.path.abspath(path), *_links_on_the_way(path), target):
            directory, link = os.path.dirname(place), os.lstat(place)
            _must_be_ours(path, directory, os.stat(directory), directory, advice)
            if stat.S_ISLNK(link.st_mode) and not _is_owner(link):
                raise _foreign(path, place, f"is a link of user {user_name(link.st_uid)}", advice)
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise BadSetting(
                f"configuration {path}: is not a regular file; remove it, or name another one with --config"
            )
        _must_be_ours(path, target, status, file, advice)
        return decode_configuration(_whole(file), path)


def decode_configuration(content: bytes, path: Path) -> str:
    """Returns the text of a configuration file.

    Raises:
        BadSetting: the text is not UTF-8.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadSetting(f"configuration {path}: is not UTF-8 at byte {error.start}; expected: TOML") from None


def read_secret(path: Path, what: str, *, by_directory: bool = False) -> bytes:
    """Returns the content of a file with a secret.

    The file must belong to this user or root and have mode 0640 or narrower. Each link on the way to it must belong to this
    user or root.

    Args:
        what: names the setting or kind of file.
        by_directory: accepts a wider mode if a directory above keeps other users out.

    Raises:
        BadSetting: others may read or change it, or it cannot be read.
    """
    with _reading(path, what, is_secret=True) as file:
        if (because := _why_not_secret(path, os.fstat(file), by_directory)) is not None:
            raise BadSetting(f"{what} {path}: {because}; it is not used")
        return _whole(file)


def read_secret_text(path: Path, what: str) -> str:
    """Returns the content of a file with a secret as text; see ``read_secret``.

    Raises:
        BadSetting: others may read or change it, it cannot be read, or it is not UTF-8.
    """
    try:
        return read_secret(path, what).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadSetting(f"{what} {path}: is not UTF-8 at byte {error.start}; expected: text") from None


def must_be_secret(path: Path, what: str) -> None:
    """Checks a file with a secret that a library reads; see ``read_secret``.

    Raises:
        BadSetting: others may read or change the file. A missing file is left to the library.
    """
    if (because := why_not_secret(path)) is not None:
        raise BadSetting(f"{what} {path}: {because}; it is not used")


def why_not_secret(path: Path, *, by_directory: bool = False) -> str | None:
    """Returns why a file cannot hold a secret, and what was expected; None if it can, or does not exist.

    Args:
        by_directory: as for ``read_secret``.
    """
    try:
        return _why_not_secret(path, path.stat(), by_directory)
    except OSError:
        return None


def why_not_trusted(path: Path) -> str | None:
    """Returns why others may have written a configuration file; None if they cannot, or it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    if not _is_owner(status):
        return f"belongs to user {user_name(status.st_uid)}; expected: user {process_user()} or root"
    if (writers := other_writers(status, path)) is not None:
        return f"may be written by {writers}; expected: chmod go-w {path}"
    return None


def other_writers(status: os.stat_result, place: Path | str | int) -> str | None:
    """Returns who except the owner may write a file or directory by its mode; None if nobody may.

    With a umask of 002, each user's own group may write. Such a group does not count as somebody else where the databases of
    users and groups list everybody.

    Args:
        status: the result of ``stat`` for ``place``, a path or a descriptor.
    """
    if status.st_mode & stat.S_IWOTH:
        return f"others (mode {_mode(status)})"
    if status.st_mode & stat.S_IWGRP and (because := _why_not_private_group(status, place)) is not None:
        return f"others (mode {_mode(status)}): {because}"
    return None


def client_keytab(environment: Mapping[str, str]) -> Path | None:
    """Returns the keytab that ``KRB5_CLIENT_KTNAME`` names; None without one in a file."""
    kind, colon, path = environment.get(CLIENT_KEYTAB, "").rpartition(":")
    return Path(path) if path and (not colon or kind == "FILE") else None


def is_here(host: str) -> bool:
    """Returns true if a host's name or address, or the path of a socket, leads to this machine."""
    if host.startswith(("/", "@")) or host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _find_allowed_bits(path: Path, by_directory: bool) -> int:
    """Returns the bits of a too wide mode that a secret may have.

    Others may have the right to read a file that they cannot reach, if a directory of this user or root above it lets only
    its owner and group pass.
    """
    levels = (directory.stat() for directory in path.resolve().parents) if by_directory else ()
    is_out_of_reach = any(_is_owner(level) and not level.st_mode & stat.S_IXOTH for level in levels)
    return stat.S_IROTH if is_out_of_reach else 0


def _why_not_secret(path: Path, status: os.stat_result, by_directory: bool) -> str | None:
    for link in _links_on_the_way(path):
        maker = os.lstat(link)
        if not _is_owner(maker):  # the link's owner chooses which of this user's files it is
            return (
                f"is reached by {link}, a link of user {user_name(maker.st_uid)}; expected: one of user {process_user()} "
                "or of root"
            )
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if not _is_owner(status):
        return f"belongs to user {user_name(status.st_uid)}; expected: a file of user {process_user()} or of root"
    if status.st_mode & _TOO_WIDE & ~_find_allowed_bits(path, by_directory):
        return f"has mode {_mode(status)}; expected: 0600, or 0640 for a group that may read it"
    return None


def _why_not_private_group(status: os.stat_result, place: Path | str | int) -> str | None:
    """Returns the other members of a file's group, or why they are unknown; None if the owner is alone.

    The group must be the owner's primary one. An access control list may name anybody; its mask replaces the group's mode.
    """
    owner, group = status.st_uid, status.st_gid
    if hasattr(os, "listxattr") and any("acl" in name.lower() for name in os.listxattr(place)):
        return "it has an access control list"
    if (source := _unlisted_source()) is not None:
        return f"{_NAME_SERVICES} names {source!r}, which need not list everybody in group {group}"
    users = pwd.getpwall()
    if unlisted := {owner, os.geteuid()} - {user.pw_uid for user in users}:
        return (
            f"the database of users does not list user {min(unlisted)}, so it need not list everybody in group {group}"
        )
    if not any(user.pw_uid == owner and user.pw_gid == group for user in users):
        return f"group {group} is not the primary group of user {user_name(owner)}"
    members = {member for entry in grp.getgrall() if entry.gr_gid == group for member in entry.gr_mem}
    members |= {user.pw_name for user in users if user.pw_gid == group}
    others = sorted(members - {user.pw_name for user in users if user.pw_uid in (owner, 0)})
    return f"group {group} has other members ({first_few(others, _FEW)})" if others else None


def _unlisted_source() -> str | None:
    """Returns a source that need not list all users or groups, such as LDAP; None if there is none."""
    try:
        lines = _NAME_SERVICES.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None  # the C library looks into files then
    for line in lines:
        database, _, sources = line.partition("#")[0].partition(":")
        if database.strip() in ("passwd", "group", "initgroups"):
            for source in re.sub(r"\[[^]]*]", " ", sources).split():
                if source not in _LISTED and not (source == "sss" and not _SSSD_SOCKET.exists()):
                    return source
    return None


def _links_on_the_way(path: Path) -> Iterator[str]:
    """Yields each link on the way to a file, by a path without other links.

    Raises:
        OSError: the links form a circle.
    """
    at, rest = "/", str(path.absolute()).split("/")[::-1]
    links = 0
    while rest:
        name = rest.pop()
        place = os.path.normpath(os.path.join(at, name))
        if name in ("", ".", "..") or not os.path.islink(place):
            at = place
            continue
        yield place
        if (links := links + 1) > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(place)
        at = "/" if target.startswith("/") else at
        rest += target.split("/")[::-1]


def _must_be_ours(named: Path, place: str, status: os.stat_result, opened: str | int, advice: str) -> None:
    if not _is_owner(status):
        raise _foreign(named, place, f"belongs to user {user_name(status.st_uid)}", advice)
    if (writers := other_writers(status, opened)) is not None:
        raise _foreign(named, place, f"may be written by {writers}", f"chmod go-w {place}, or {advice}")


def _foreign(named: Path, place: str, because: str, advice: str) -> BadSetting:
    return BadSetting(
        f"{os.path.abspath(named)}: nobody named this file, and {place} {because}; expected: file and directory of user "
        f"{process_user()} or of root that nobody else may write; {advice}"
    )


def _is_owner(status: os.stat_result) -> bool:
    return status.st_uid in (os.geteuid(), 0)


def _mode(status: os.stat_result) -> str:
    return f"{stat.S_IMODE(status.st_mode):04o}"


@contextmanager
def _reading(path: Path, what: str, *, is_secret: bool = False) -> Iterator[int]:
    """Opens a file, without waiting for one that is a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        if is_secret and not path.is_absolute():  # people put the secret itself there
            raise BadSetting(
                f"{what}: cannot be read: {error.strerror}; expected: the absolute path of a file. What is there instead is "
                "not shown, as it may be the secret itself"
            ) from None
        raise BadSetting(f"{what} {path}: cannot be read: {error.strerror}") from error


def _whole(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()
