"""Maven, which downloads Java libraries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_trusting: list[bool] = []  #: whether the machine's authorities are needed, once that is known


def maven(goal: Sequence[str], folder: Path) -> None:
    """Runs Maven; where it does not trust the server, once more with the authorities that the machine trusts."""
    said = ""
    for trusts in _trusting or (False, True):
        done = subprocess.run(
            ["mvn", "-B", "-q", "-U", *goal],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=os.environ | (_trust(folder) if trusts else {}),
        )
        if done.returncode == 0:
            _trusting[:] = [trusts]
            return
        said = done.stdout + done.stderr
    raise AssertionError(f"Maven could not do {' '.join(goal)}: {said}")


def _trust(folder: Path) -> dict[str, str]:
    """Returns the environment in which Java also trusts the machine's authorities: its own set lacks those that are only in
    the machine's bundle (a proxy's).
    """
    java, bundle = Path("/etc/ssl/certs/java/cacerts"), Path("/etc/ssl/certs/ca-certificates.crt")
    if not java.is_file() or not bundle.is_file():
        return {}
    known = "".join(path.read_text("utf-8") for path in Path("/usr/share/ca-certificates").rglob("*.crt"))
    certificates = re.findall(
        "-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", bundle.read_text("utf-8"), re.S
    )
    store = folder / "cacerts"
    shutil.copyfile(java, store)
    for number, certificate in enumerate(certificates):
        if certificate not in known:
            command = ["keytool", "-importcert", "-noprompt", "-keystore", str(store), "-storepass", "changeit"]
            command += ["-alias", f"of-the-machine-{number}"]
            subprocess.run(command, input=certificate, capture_output=True, text=True, check=True)
    options = f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=changeit"
    return {"MAVEN_OPTS": f"{os.environ.get('MAVEN_OPTS', '')} {options}"}
