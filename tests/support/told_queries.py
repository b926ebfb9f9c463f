"""The page over HTTP, to which a live Trino posts the queries that it ran."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import airflow_home
from tests.support.patience import until

_CONFIG = "AIRFLOW__COMPACTOR__CONFIG"
_CONFIGURATION = """\
[metastore.default]
url = "{url}"
state_url = "{state}"

[metastore.default.settings]
"compactor.reads.token.file" = "{token}"
"""


@dataclass(slots=True, kw_only=True)
class Told:
    """The address where queries are told, its configuration, and the status and text of each answer so far."""

    token: str
    config: Path
    url: str = ""
    answers: list[tuple[int, str]] = field(default_factory=list)


@contextmanager
def listening(folder: Path, metastore_url: str) -> Iterator[Told]:
    """Yields where the page listens, for the metastore at ``metastore_url``; its configuration is put into ``folder``."""
    airflow_home.prepare()
    import uvicorn
    from fastapi import FastAPI, Request, Response

    from compactor.airflow.options import PREFIX
    from compactor.airflow.page.app import build
    from compactor.state import state_upgrade

    token, config = folder / "reads-token", folder / "told.toml"
    told, state = Told(token=secrets.token_hex(16), config=config), f"sqlite:///{folder / 'told-state.db'}"
    token.write_text(told.token)
    token.chmod(0o600)
    token.chmod(0o600)
    config.write_text(_CONFIGURATION.format(url=metastore_url, state=state, token=token))
    state_upgrade.init(state).close()

    app = FastAPI()
    app.mount(PREFIX, build())

    @app.middleware("http")
    async def keep(request: Request, call_next: Any) -> Response:
        response = await call_next(request)
        text = b"".join([part async for part in response.body_iterator])
        told.answers.append((response.status_code, text.decode()))
        return Response(text, response.status_code, dict(response.headers))

    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_config=None, ws="none"))
    thread = threading.Thread(target=server.run)
    before = os.environ.get(_CONFIG)
    os.environ[_CONFIG] = str(config)
    thread.start()
    try:
        until("the page listens", lambda: server.started)
        told.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{PREFIX}/default/api/reads"
        yield told
    finally:
        server.should_exit = True
        thread.join()
        os.environ.pop(_CONFIG)
        if before is not None:
            os.environ[_CONFIG] = before
