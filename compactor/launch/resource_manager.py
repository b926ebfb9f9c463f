"""Talks to YARN's ResourceManager by REST, at the address in this machine's YARN configuration."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compactor.base.errors import ClusterUnavailable
from compactor.launch.yarn_application import YarnApplication, read_application
from compactor.settings.hive_site import parse_site
from compactor.storage.hdfs_options import Kerberos
from compactor.storage.kerberos_errors import LogInFailed, NotProven
from compactor.storage.silent_logs import silence_secrets

_RM = "yarn.resourcemanager"
_TIMEOUT_S = 15.0
_NOT_FOUND = 404
_TAIL_BYTES = 16_384
_LOG = re.compile(
    r"(?P<node>https?://[^/]+)/node/containerlogs/(?P<container>container_[\w]+)/.*"
)  #: as the list has it


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManager:
    """A cluster's ResourceManagers. One of them is active, and the others redirect requests to it."""

    addresses: tuple[str, ...]
    kerberos: bool = False
    user: str = field(default_factory=getpass.getuser)

    def application(self, number: str) -> YarnApplication | None:
        """Returns an application; None if the manager does not know it, or no longer.

        Raises:
            ClusterUnavailable: no manager answers.
        """
        answer = self._ask("GET", f"apps/{number}")
        return None if answer is None else read_application(answer["app"])

    def list_tagged(self, tag: str) -> tuple[YarnApplication, ...]:
        """Returns the applications with this tag, oldest first.

        Raises:
            ClusterUnavailable: no manager answers.
        """
        answer = self._ask("GET", "apps", applicationTags=tag) or {}
        rows = (answer.get("apps") or {}).get("app", [])
        tagged = [application for application in map(read_application, rows) if tag in application.tags]
        return tuple(sorted(tagged, key=lambda application: _sort_key(application.id)))

    def kill(self, number: str) -> bool:
        """Asks the manager to end an application, like ``yarn application -kill``. It ends a moment later.

        Returns:
            False if the manager does not know it.

        Raises:
            ClusterUnavailable: no manager answers, or the manager refuses.
        """
        return self._ask("PUT", f"apps/{number}/state", body={"state": "KILLED"}) is not None

    def driver_output(self, application: YarnApplication) -> str:
        """Returns the end of the last driver's output in cluster mode; empty if its node cannot be asked.

        YARN itself reports only an exit code of a driver that fails.
        """
        import requests

        match = _LOG.fullmatch(application.log_url or "")
        if match is None:
            return ""
        address = f"{match['node']}/ws/v1/node/containers/{match['container']}/logs/stdout?size=-{_TAIL_BYTES}"
        try:
            answer = self._send("GET", address, {})
            return str(answer.text) if answer.ok else ""
        except (requests.RequestException, ClusterUnavailable):
            return ""

    def _ask(
        self, method: str, path: str, *, body: dict[str, str] | None = None, **parameters: str
    ) -> dict[str, Any] | None:
        import requests

        errors = []
        for address in self.addresses:
            try:
                answer = self._send(method, f"{address}/ws/v1/cluster/{path}", parameters, body)
                if answer.status_code == _NOT_FOUND:
                    return None
                answer.raise_for_status()
                return dict(answer.json())
            except (requests.RequestException, ValueError, LogInFailed, NotProven) as error:
                errors.append(str(error))
        raise ClusterUnavailable(
            f"YARN's ResourceManager cannot be asked: {'; '.join(errors)}; its address comes from yarn-site.xml in "
            f"{' or '.join(FOLDERS)}"
        )

    def _send(self, method: str, url: str, parameters: dict[str, str], body: dict[str, str] | None = None) -> Any:
        import requests

        query = parameters if self.kerberos else {**parameters, "user.name": self.user}
        auth = _make_kerberos_auth() if self.kerberos else None
        return requests.request(method, url, params=query, json=body, timeout=_TIMEOUT_S, auth=auth)


def configured_manager(environ: Mapping[str, str]) -> ResourceManager | None:
    """Returns the cluster of this machine's YARN configuration; None if it has none.

    Raises:
        BadSetting: a configuration file cannot be parsed.
    """
    values = read_configuration(environ)
    if not any(key.startswith(f"{_RM}.") for key in values):
        return None
    return ResourceManager(
        addresses=tuple(_list_addresses(values)), kerberos=values.get("hadoop.http.authentication.type") == "kerberos"
    )


def _list_addresses(values: Mapping[str, str]) -> Iterator[str]:
    """Yields the address of each manager's web interface, as YarnConfiguration resolves it."""
    secure = ("webapp.https.address", 8090, "https")
    key, port, scheme = secure if is_https(values) else ("webapp.address", 8088, "http")
    is_ha = values.get(f"{_RM}.ha.enabled", "").strip().lower() == "true"
    ids = values.get(f"{_RM}.ha.rm-ids", "").split(",") if is_ha else [""]
    for suffix in (f".{manager_id.strip()}" if manager_id.strip() else "" for manager_id in ids):
        host = values.get(f"{_RM}.hostname{suffix}", values.get(f"{_RM}.hostname", "localhost")).strip()
        address = values.get(f"{_RM}.{key}{suffix}", "").strip().replace(f"${{{_RM}.hostname}}", host)
        yield f"{scheme}://{address or f'{host}:{port}'}"


def _make_kerberos_auth() -> Any:
    """Returns an authentication by this process's Kerberos tickets, or by ``KRB5_CLIENT_KTNAME``."""
    try:
        from compactor.storage.hdfs_kerberos import Negotiate
    except ImportError as error:
        raise ClusterUnavailable(
            f"the ResourceManager requires Kerberos; install the extra: pip install 'hive-compactor[kerberos]' ({error})"
        ) from None
    silence_secrets()
    return Negotiate(Kerberos(principal=None, keytab=None))


def _sort_key(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in number.split("_")[1:])


FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")  #: environment variables; a later one's values win
_FILES = ("core-site.xml", "yarn-site.xml")


def read_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the values of core-site.xml and yarn-site.xml; empty if there are none.

    Raises:
        BadSetting: a file cannot be parsed.
    """
    values: dict[str, str] = {}
    for folder in filter(None, (environ.get(name) for name in FOLDERS)):
        for name in _FILES:
            try:
                values |= parse_site(Path(folder, name).read_bytes())
            except OSError:
                continue
    return values


def is_https(values: Mapping[str, str]) -> bool:
    """Returns true if YARN's daemons serve their pages by HTTPS."""
    return values.get("yarn.http.policy", "").strip() == "HTTPS_ONLY"
