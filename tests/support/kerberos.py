"""A KDC of our own on loopback, and the libraries of the extra ``kerberos``, which are built once."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.daemons import Daemon
from tests.support.downloads import ROOT, kept_once
from tests.support.patience import until
from tests.support.ports import answers, free_port

REALM = "TESTS.EXAMPLE"
#: Whose sources are all that there is for Linux: they are compiled, against the headers of Debian's libkrb5-dev.
_LIBRARIES = ("requests-kerberos", "pyspnego", "gssapi", "krb5")
_CLIENT = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
[domain_realm]
localhost = {realm}
"""
_SERVER = """[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  max_life = 10h
  max_renewable_life = 7d
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kdc:
    """A realm with its KDC. Each principal has a keytab of its own in ``folder``."""

    folder: Path
    port: int
    daemon: Daemon

    @property
    def config(self) -> Path:
        return self.folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """The environment that a process needs to find the KDC."""
        return {"KRB5_CONFIG": str(self.config)}

    def keytab(self, principal: str) -> Path:
        return self.folder / f"{principal.replace('/', '-')}.keytab"

    def add(self, principal: str, *options: str) -> Path:
        """Makes a principal; returns its keytab."""
        self._administer(f"addprinc -randkey {' '.join(options)} {principal}")
        self._administer(f"ktadd -k {self.keytab(principal)} {principal}")
        return self.keytab(principal)

    def remove(self, principal: str) -> None:
        self._administer(f"delete_principal -force {principal}")

    def add_of_other_realm(self, name: str, realm: str) -> None:
        """Writes a keytab for a principal of a realm that has no KDC."""
        principal = f"{name}@{realm}"
        entry = f"add_entry -password -p {principal} -k 1 -e aes256-cts-hmac-sha1-96"
        commands = f"{entry}\nof nobody\nwrite_kt {self.keytab(principal)}\nquit\n"
        subprocess.run(["ktutil"], input=commands, text=True, check=True, capture_output=True)

    def wait_until_expired(self, cache: Path) -> None:
        until("the tickets expire", lambda: subprocess.run(["klist", "-s", "-c", str(cache)], check=False).returncode)

    def new_keys(self, principal: str) -> None:
        """Changes a principal's keys, so that its keytab no longer fits."""
        self._administer(f"change_password -randkey {principal}")

    def ticket(self, principal: str, cache: Path, *options: str, at: str | None = None) -> dict[str, str]:
        """Logs ``principal`` in, as a person does; returns the environment with the tickets. ``at`` is for faketime."""
        environment = self.environment | {"KRB5CCNAME": f"FILE:{cache}"}
        clock = ["faketime", at] if at else []
        command = [*clock, "kinit", *options, "-kt", str(self.keytab(principal)), principal]
        _run(command, environment)
        return environment

    def _administer(self, query: str) -> None:
        _run(["kadmin.local", "-r", REALM, "-q", query], self.environment | _profile(self.folder))


def _profile(folder: Path) -> dict[str, str]:
    return {"KRB5_KDC_PROFILE": str(folder / "kdc.conf")}


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | dict(environment))
    went_well = done.returncode == 0 and "while" not in done.stderr  # kadmin.local returns 0 whatever its query did
    assert went_well, f"{command}: {done.stdout}{done.stderr}"


@contextmanager
def kdc(folder: Path) -> Iterator[Kdc]:
    """Yields the KDC of an empty realm, with its files in ``folder``."""
    port = free_port()
    (folder / "krb5.conf").write_text(_CLIENT.format(realm=REALM, port=port), "utf-8")
    (folder / "kdc.conf").write_text(_SERVER.format(realm=REALM, port=port, folder=folder), "utf-8")
    environment = {"KRB5_CONFIG": str(folder / "krb5.conf")} | _profile(folder)
    _run(["kdb5_util", "create", "-s", "-r", REALM, "-P", "of nobody"], environment)
    server = ["krb5kdc", "-n", "-r", REALM, "-P", str(folder / "kdc.pid")]
    daemon = Daemon(name="kdc", folder=folder, command=server, environment=environment)
    with daemon.running(lambda: answers(port)):
        yield Kdc(folder=folder, port=port, daemon=daemon)


def kerberos_libraries() -> Path:
    """Returns a folder for ``PYTHONPATH`` with the libraries of the extra that .venv leaves out, as uv.lock has them."""
    with (ROOT / "uv.lock").open("rb") as file:
        locked = {package["name"]: package["version"] for package in tomllib.load(file)["package"]}
    wanted = [f"{name}=={locked[name]}" for name in _LIBRARIES]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = "-".join(["kerberos", python, *(locked[name] for name in _LIBRARIES)])
    return kept_once(ROOT / "build" / "cache", name, lambda folder: _install(wanted, folder))


@contextmanager
def kerberos_on_path() -> Iterator[None]:
    """Lets this process import the libraries of the extra."""
    libraries = str(kerberos_libraries())
    sys.path.append(libraries)
    try:
        yield
    finally:
        sys.path.remove(libraries)


def _install(wanted: list[str], folder: Path) -> Path:
    uv = str(ROOT / ".tools" / "bin" / "uv")
    target = ["--python", sys.executable, "--no-deps", "--target", str(folder / "lib")]
    subprocess.run([uv, "pip", "install", "--quiet", *target, *wanted], check=True, cwd=ROOT)
    return folder / "lib"
