"""The page as Airflow serves it: its own application with the plugin, over HTTP on the loopback interface."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow_home import prepare
from tests.support.patience import until

prepare()

from tests.unit.airflow.page.conftest import Audit, application, audit, pass_over_foreign, place, site  # noqa: E402

__all__ = ["Audit", "application", "audit", "place", "site"]

PAGE = "/compactor/default/api"
OURS = {"X-Compactor": "1", "Sec-Fetch-Site": "same-origin"}
JSON = {"Content-Type": "application/json"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    pass_over_foreign(items, Path(__file__).parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status, headers and content of a response."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The running server. ``seconds`` is how long anybody waits for an answer of it."""

    port: int
    token: Callable[[str], str]
    seconds: float = 60

    def get(self, path: str, role: str | None = "viewer") -> Answer:
        """Returns the answer to a GET of ``path`` by a user of this role, or by nobody."""
        return self.ask("GET", path, role)

    def act(self, path: str, body: object = None, role: str | None = "user") -> Answer:
        """Returns the answer to an action as our page asks for it."""
        return self.ask("POST", path, role, json.dumps({} if body is None else body), {**OURS, **JSON})

    def ask(
        self,
        method: str,
        path: str,
        role: str | None,
        body: str | bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Returns the answer to any request."""
        login = {} if role is None else {"Authorization": f"Bearer {self.token(role)}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.seconds)
        try:
            connection.request(method, path, body=body, headers={**login, **(headers or {})})
            found = connection.getresponse()
            names = {name.lower(): value for name, value in found.getheaders()}
            return Answer(status=found.status, headers=names, text=found.read().decode())
        finally:
            connection.close()


@pytest.fixture(scope="session")
def running(application: Any) -> Iterator[Server]:
    """Airflow's API server, in a thread of this process so that tests can look into what it did."""
    import uvicorn
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    made = uvicorn.Server(uvicorn.Config(application, port=0, lifespan="off", log_config=None, ws="none"))
    thread = threading.Thread(target=made.run)
    thread.start()
    until("the server listens", lambda: made.started)

    def token(role: str) -> str:
        return str(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=f"{role}-1", role=role)))

    yield Server(port=made.servers[0].sockets[0].getsockname()[1], token=token)
    made.should_exit = True
    thread.join()


@pytest.fixture
def server(running: Server, place: Any) -> Server:
    """The server, which finds the metastore of ``place``."""
    return running
