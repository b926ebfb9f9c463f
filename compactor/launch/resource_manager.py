"""The ResourceManager, by its REST interface, where this machine's YARN configuration says that it is."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compactor.base.errors import ClusterUnavailable
from compactor.launch.yarn_application import YarnApplication, read_application
from compactor.launch.yarn_configuration import FOLDERS, is_https, read_configuration
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
    """A cluster's ResourceManagers, of which one is active; another passes questions on to it."""

    addresses: tuple[str, ...]
    kerberos: bool = False
    user: str = field(default_factory=getpass.getuser)

    def application(self, number: str) -> YarnApplication | None:
        """Returns an application; None if it is not known, for example since the manager has forgotten it.

        Raises:
            ClusterUnavailable: no manager answers.
        """
        found = self._ask("GET", f"apps/{number}")
        return None if found is None else read_application(found["app"])

    def tagged(self, tag: str) -> tuple[YarnApplication, ...]:
        """Returns the applications with this tag, oldest first.

        Raises:
            ClusterUnavailable: no manager answers.
        """
        found = self._ask("GET", "apps", applicationTags=tag) or {}
        rows = (found.get("apps") or {}).get("app", [])
        applications = [read_application(row) for row in rows]
        return tuple(sorted((one for one in applications if tag in one.tags), key=lambda one: _order(one.id)))

    def kill(self, number: str) -> bool:
        """Asks for an application's end, as ``yarn application -kill`` does; it follows a moment later.

        Returns:
            False if it is not known.

        Raises:
            ClusterUnavailable: no manager answers, or it refuses.
        """
        return self._ask("PUT", f"apps/{number}/state", body={"state": "KILLED"}) is not None

    def driver_output(self, application: YarnApplication) -> str:
        """Returns the end of what the last driver of an application wrote in cluster mode; empty if its node does not say.
        YARN's own word on a driver that fails is an exit code."""
        import requests

        found = _LOG.fullmatch(application.log_url or "")
        if found is None:
            return ""
        address = f"{found['node']}/ws/v1/node/containers/{found['container']}/logs/stdout?size=-{_TAIL_BYTES}"
        try:
            answer = self._send("GET", address, {})
            return str(answer.text) if answer.ok else ""
        except (requests.RequestException, ClusterUnavailable):
            return ""

    def _ask(
        self, method: str, path: str, *, body: dict[str, str] | None = None, **parameters: str
    ) -> dict[str, Any] | None:
        import requests

        said = []
        for address in self.addresses:
            try:
                answer = self._send(method, f"{address}/ws/v1/cluster/{path}", parameters, body)
                if answer.status_code == _NOT_FOUND:
                    return None
                answer.raise_for_status()
                return dict(answer.json())
            except (requests.RequestException, ValueError, LogInFailed, NotProven) as error:
                said.append(str(error))
        raise ClusterUnavailable(
            f"YARN's ResourceManager cannot be asked: {'; '.join(said)}; it is looked for where yarn-site.xml of "
            f"{' or '.join(FOLDERS)} says"
        )

    def _send(self, method: str, url: str, parameters: dict[str, str], body: dict[str, str] | None = None) -> Any:
        import requests

        given = parameters if self.kerberos else {**parameters, "user.name": self.user}
        auth = _ticket() if self.kerberos else None
        return requests.request(method, url, params=given, json=body, timeout=_TIMEOUT_S, auth=auth)


def resource_manager(environ: Mapping[str, str]) -> ResourceManager | None:
    """Returns the cluster of this machine's YARN configuration; None if it has none.

    Raises:
        BadSetting: a file of it cannot be understood.
    """
    values = read_configuration(environ)
    if not any(key.startswith(f"{_RM}.") for key in values):
        return None
    return ResourceManager(
        addresses=tuple(_addresses(values)), kerberos=values.get("hadoop.http.authentication.type") == "kerberos"
    )


def _addresses(values: Mapping[str, str]) -> Iterator[str]:
    """Yields the address of each manager's web interface, as YarnConfiguration resolves it."""
    secure = ("webapp.https.address", 8090, "https")
    key, port, scheme = secure if is_https(values) else ("webapp.address", 8088, "http")
    is_ha = values.get(f"{_RM}.ha.enabled", "").strip().lower() == "true"
    ids = values.get(f"{_RM}.ha.rm-ids", "").split(",") if is_ha else [""]
    for suffix in (f".{one.strip()}" if one.strip() else "" for one in ids):
        host = values.get(f"{_RM}.hostname{suffix}", values.get(f"{_RM}.hostname", "localhost")).strip()
        address = values.get(f"{_RM}.{key}{suffix}", "").strip().replace(f"${{{_RM}.hostname}}", host)
        yield f"{scheme}://{address or f'{host}:{port}'}"


def _ticket() -> Any:
    """Returns a log-in by this process's tickets, or by the keytab that ``KRB5_CLIENT_KTNAME`` names."""
    try:
        from compactor.storage.negotiate import Negotiate
    except ImportError as error:
        raise ClusterUnavailable(
            f"the ResourceManager wants Kerberos, which needs the extra: pip install 'hive-compactor[kerberos]' ({error})"
        ) from None
    silence_secrets()
    return Negotiate(Kerberos(principal=None, keytab=None))


def _order(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in number.split("_")[1:])
