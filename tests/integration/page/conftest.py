"""A real API server of Airflow with the page, over a busy metastore, and a real Chromium that looks at it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from demo.servers import AirflowServers
from tests.support.busy_metastore import Busy, make_busy

ROOT = Path(__file__).resolve().parents[3]
#: One user of each role that matters here.
USERS = "admin:admin,opal:op,vera:viewer"
SLOW = 300_000  #: ms that a loaded machine may take for anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Things that the tests share: the servers, and what the metastore holds."""

    servers: AirflowServers
    place: DemoPaths
    busy: Busy

    def page_url(self, view: str) -> str:
        return f"{self.servers.url}/compactor/default/{view}"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Runs only the API server, which is all that the page needs. It ends with the file, to free its memory for other
    tests.
    """
    place = DemoPaths(folder=tmp_path_factory.mktemp("page") / "place")
    place.make()
    with place.site() as site:
        busy = make_busy(site, place.warehouse)
    more = {
        "AIRFLOW__COMPACTOR__CONFIG": str(place.config),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": USERS,
    }
    with AirflowServers(place.airflow, ROOT / "dags", more, components=("api-server",)) as servers:
        servers.start(timeout=900)
        yield Shown(servers=servers, place=place, busy=busy)


@pytest.fixture
def site(shown: Shown) -> Iterator[Site]:
    """The metastore that the page shows."""
    with shown.place.site() as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; Playwright's own is not downloaded.

    It ends with the file, not with the session: while Playwright lives, its event loop counts as running in this
    thread, and no other test could start one.
    """
    found = shutil.which("chromium")
    assert found is not None, "wanted: Debian's package chromium (make test installs it)"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def login(shown: Shown, browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Logs somebody in to Airflow in a browser as its login page does: by a cookie."""
    made: list[BrowserContext] = []

    def enter(user: str, **more: Any) -> BrowserContext:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, **more)
        made.append(context)
        context.set_default_timeout(SLOW)
        passwords = json.loads((shown.servers.home / "passwords.json").read_text("utf-8"))
        login = {"username": user, "password": passwords[user]}
        token = context.request.post(f"{shown.servers.url}/auth/token", data=login, timeout=SLOW).json()["access_token"]
        context.add_cookies([{"name": "_token", "value": token, "url": shown.servers.url}])
        return context

    yield enter
    for context in made:
        context.close()


def opened(context: BrowserContext, url: str) -> Page:
    """Opens a page and waits for its view; whatever the page logs as an error fails the test that closes it."""
    page = context.new_page()
    page.goto(url, timeout=SLOW)
    page.wait_for_selector("main[data-ready]")
    return page
