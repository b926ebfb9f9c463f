"""A fresh metastore on a server, for tests that mistreat it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.engine import make_url

from tests.support import servers
from tests.support.patience import until

PASSWORD = "ge%heim"

_KILL = {"postgresql": "SELECT pg_terminate_backend({0});", "mysql": "KILL {0};"}
_LIVES = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE pid = {0};",
    "mysql": "SELECT count(*) FROM information_schema.PROCESSLIST WHERE ID = {0};",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A fresh metastore on a server of its own kind."""

    server: servers.Server
    name: str
    url: str

    def kill(self, connection: int) -> None:
        """Ends one connection as an administrator does. The server takes its own time, so this waits for it."""
        self.server.sql(_KILL[self.server.kind].format(connection), self.name)
        self.wait_for_end(connection)

    def wait_for_end(self, connection: int) -> None:
        """Waits until the server has no such connection."""
        lives = _LIVES[self.server.kind].format(connection)
        until(f"the end of connection {connection}", lambda: int(self.server.sql(lives, self.name)) == 0)

    def user(self, name: str, grants: str) -> str:
        """Returns the URL of a new user with a password and some rights."""
        if self.server.kind == "postgresql":
            make = f"SET password_encryption = 'scram-sha-256'; DROP ROLE IF EXISTS {name};"
            make += f" CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'; {grants} TO {name};"
        else:
            make = f"DROP USER IF EXISTS {name}@localhost; CREATE USER {name}@localhost IDENTIFIED BY '{PASSWORD}';"
            make += f" {grants} TO {name}@localhost;"
        self.server.sql(make, self.name)
        return make_url(self.url).set(username=name, password=PASSWORD).render_as_string(hide_password=False)

    def may_read(self) -> str:
        """Returns the grants of a user ``reader`` who has SELECT and nothing else."""
        if self.server.kind == "postgresql":
            return "GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA public"
        return f"GRANT SELECT ON {self.name}.*"
