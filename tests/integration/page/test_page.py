"""The page in a real Chromium over a real API server."""

from __future__ import annotations

import http.server
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import State
from compactor.site.site import Site, paused_tables
from compactor.state.runs import Progress
from tests.integration.page.conftest import ROOT, SLOW, Shown, opened

pytestmark = pytest.mark.whole

VIEWS = ("overview", "tables", "queue", "blocked", "history", "settings")
AXE = ROOT / "tests" / "support" / "assets" / "axe.min.js"
#: Folder for the documents' pictures; they are made again only when this is set.
PICTURES = os.environ.get("PAGE_PICTURES")
Login = Callable[..., BrowserContext]
expect.set_options(timeout=SLOW)


def test_it_stands_in_airflows_own_ui_and_follows_its_theme(shown: Shown, login: Login) -> None:
    plugins = {p["name"] for p in shown.servers.call("GET", "/api/v2/plugins")["plugins"]}
    assert "compactor" in plugins
    asked: list[str] = []
    for theme in ("light", "dark"):
        context = login("opal", color_scheme="light" if theme == "dark" else "dark")
        context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.goto(f"{shown.servers.url}/plugin/compactor", timeout=SLOW)
        frame = page.frame_locator("iframe")
        frame.locator("main[data-ready] tbody tr").first.wait_for()
        expect(frame.locator("html")).to_have_attribute("data-theme", theme)
        picture(page, f"page-{theme}")
    assert [url for url in asked if not url.startswith((shown.servers.url, "data:", "blob:"))] == []


def test_every_view_can_be_used_without_seeing_it(shown: Shown, login: Login) -> None:
    """axe-core finds nothing serious in any view, light or dark, nor in a dialog."""
    for scheme in ("light", "dark"):
        context = login("opal", color_scheme=scheme)
        page = opened(context, shown.page_url("tables"))
        for view in VIEWS:
            page.goto(shown.page_url(view), timeout=SLOW)
            page.wait_for_selector("main[data-ready]")
            assert serious(page) == [], (view, scheme)
            picture(page, f"page-{view}-{scheme}")
        page.goto(shown.page_url("tables"), timeout=SLOW)
        page.get_by_role("button", name="default.returns_3").click()
        expect(page.get_by_role("dialog", name="default.returns_3")).to_be_visible()
        assert serious(page) == [], scheme
        picture(page, f"page-explain-{scheme}")


def test_nothing_lies_outside_of_the_window(shown: Shown, login: Login) -> None:
    """Neither at 1,440 pixels nor on a telephone is there anything beside the window, and axe-core finds nothing serious."""
    views = (*VIEWS, "settings?table=default.returns_1&changed=false")
    page = opened(login("opal"), shown.page_url("tables"))
    for width, name in ((1440, "wide"), (400, "narrow")):
        page.set_viewport_size({"width": width, "height": 900})
        for view in views:
            page.goto(shown.page_url(view), timeout=SLOW)
            page.wait_for_selector("main[data-ready]")
            assert outside(page) == [], (view, width)
            assert serious(page) == [], (view, width)
            picture(page, f"page-{view.partition('?')[0]}-{name}")
        page.goto(shown.page_url("tables"), timeout=SLOW)
        page.get_by_role("button", name="default.returns_3").click()
        assert outside(page) == [], width


def test_a_look_is_one_truth_and_is_kept(shown: Shown, login: Login, site: Site) -> None:
    page = opened(login("vera"), shown.page_url("tables?find=returns_1"))
    page.get_by_role("button", name="default.returns_1").click()
    dialog = page.get_by_role("dialog")
    before = dialog.locator("time").get_attribute("datetime")
    dialog.get_by_role("button", name="Look now").click()
    expect(dialog.locator("time")).not_to_have_attribute("datetime", before or "")
    expect(dialog.locator("p > .chip")).to_have_count(1)
    assert site.state is not None
    (seen,) = site.state.conditions.for_entities(site.name, [Entity(database="default", table="returns_1")]).values()
    assert datetime.fromisoformat(dialog.locator("time").get_attribute("datetime") or "").timestamp() * 1000 == seen.at


def test_tables_are_found_sorted_and_paged_by_the_server(shown: Shown, login: Login) -> None:
    page = opened(login("vera"), shown.page_url("tables"))
    page.get_by_label("Find tables").fill("clicks")
    expect(page.get_by_text("1–50 of 240")).to_be_visible()
    page.get_by_role("button", name="Deltas", exact=True).press("Enter")
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Deltas")
    expect(page.locator("tbody tr").first).to_contain_text("12")
    expect(page.get_by_role("button", name="Deltas", exact=True)).to_be_focused()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("51–100 of 240")).to_be_visible()
    assert "order=deltas" in page.url
    page.reload()
    expect(page.get_by_text("51–100 of 240")).to_be_visible()


def test_a_table_is_explained_and_compacted(shown: Shown, login: Login, site: Site) -> None:
    page = opened(login("opal"), shown.page_url("tables"))
    page.get_by_role("button", name="default.returns_4").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("hive.compactor.delta.num.threshold of 7 or more")
    dialog.get_by_role("button", name="Look now").click()
    expect(dialog).to_contain_text("Not needed")
    dialog.get_by_role("button", name="Compact…").click()
    expect(dialog.locator(".estimate")).to_contain_text("re-encoded")
    expect(dialog.get_by_label("Type")).to_have_value("major")
    dialog.get_by_label("Type").select_option("minor")
    dialog.get_by_label("Pool").fill("night")
    dialog.get_by_role("button", name="Queue the compaction").click()
    expect(page.get_by_role("status")).to_contain_text("default.returns_4 is queued as compaction")
    (entry,) = site.metastore.entries.queue(database="default", table="returns_4")
    assert (entry.type.label, entry.pool) == ("MINOR", "night")
    assert audited(shown, "compactor_compact") == [("opal", "default.returns_4")]


def test_what_found_no_thread_free_is_asked_again(shown: Shown, login: Login) -> None:
    """The server says when; what does not answer at all is told at once."""
    page = login("vera").new_page()
    busy_for = ["1", "1"]

    def busy(route: Route) -> None:
        if not busy_for:
            route.continue_()
            return
        headers = {"Retry-After": busy_for.pop(0), "Content-Type": "application/json"}
        route.fulfill(status=503, headers=headers, body='{"detail": "metastore default: it takes too long."}')

    page.route("**/api/overview*", busy)
    page.goto(shown.page_url("queue"), timeout=SLOW)
    page.wait_for_selector("main[data-ready]")
    expect(page.locator("#mode")).to_contain_text("mode")
    expect(page.locator("#alert")).to_be_empty()
    assert busy_for == []
    busy_for.extend(["10"] * 100)
    page.locator("#refresh").click()
    expect(page.locator("#alert")).to_contain_text("metastore default: it takes too long.")
    assert len(busy_for) > 90


def test_a_table_is_paused_and_resumed(shown: Shown, login: Login, site: Site) -> None:
    page = opened(login("opal"), shown.page_url("tables"))
    for verb, done, there in (
        ("Pause", "default.returns_2 is paused", True),
        ("Resume", "The initiator considers default.returns_2 again", False),
    ):
        page.get_by_role("button", name="default.returns_2").click()
        page.get_by_role("dialog").get_by_role("button", name=f"{verb}…").click()
        question = page.get_by_role("dialog", name=f"{verb} default.returns_2?")
        expect(question).to_contain_text("initiator")
        question.get_by_role("button", name=f"{verb} the table").click()
        expect(page.get_by_role("status")).to_contain_text(done)
        row = page.locator("tbody tr").filter(has_text="default.returns_2")
        expect(row.get_by_text("Paused", exact=True)).to_have_count(int(there))
        assert (("default", "returns_2") in paused_tables(site)) is there
        assert audited(shown, f"compactor_{verb.lower()}") == [("opal", "default.returns_2")]


def test_a_setting_of_a_table_is_overridden_and_given_back(shown: Shown, login: Login, site: Site) -> None:
    key = "hive.compactor.delta.num.threshold"
    page = opened(login("opal"), f"{shown.page_url('settings')}?table=default.returns_1&changed=false&find=delta.num")
    page.get_by_role("button", name=f"Override {key}").click()
    question = page.get_by_role("dialog")
    question.get_by_label("Value").fill("many")
    question.get_by_role("button", name="Override", exact=True).click()
    expect(question.get_by_role("alert")).to_contain_text("many")
    question.get_by_label("Value").fill("21")
    question.get_by_role("button", name="Override", exact=True).click()
    row = page.locator("tbody tr").filter(has_text=key)
    expect(row).to_contain_text("override")
    expect(row).to_contain_text("by opal")
    entity = Entity(database="default", table="returns_1")
    assert site.settings_of(entity).integer(key) == 21
    assert serious(page) == []
    row.get_by_role("button", name=f"Remove the override of {key}").click()
    page.get_by_role("button", name="Remove the override", exact=True).click()
    expect(row.get_by_text("override", exact=True)).to_have_count(0)
    assert site.settings_of(entity).source(key) == "default"
    assert audited(shown, "compactor_override") == [("opal", "default.returns_1")] * 3


def test_what_runs_brought_their_readers_is_plotted_and_told(shown: Shown, login: Login) -> None:
    page = opened(login("vera"), shown.page_url("history"))
    expect(page.locator("figure[data-plot=openings]")).to_contain_text(re.compile(r"measured runs: .* became "))
    expect(page.locator("tbody tr").filter(has_text="default.orders")).to_contain_text("times as")
    expect(page.locator("tbody tr").filter(has_text="failed")).not_to_contain_text("times as")


def test_what_is_refused_says_why_where_it_was_asked(shown: Shown, login: Login) -> None:
    page = opened(login("opal"), shown.page_url("queue"))
    page.get_by_role("button", name="Compact…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Table").fill("default.gone")
    dialog.get_by_role("button", name="Queue the compaction").click()
    expect(dialog.get_by_role("alert")).to_contain_text("default.gone")
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


def test_a_request_is_cancelled_after_a_question_and_asked_for_again(shown: Shown, login: Login, site: Site) -> None:
    entry_id = shown.busy.waiting
    page = opened(login("opal"), shown.page_url("queue"))
    page.get_by_role("button", name=f"Cancel request of compaction {entry_id}").click()
    page.get_by_role("button", name="Leave it in the queue").click()
    assert site.metastore.entries.get(entry_id).state is State.INITIATED
    page.get_by_role("button", name=f"Cancel request of compaction {entry_id}").click()
    page.get_by_role("button", name="Cancel the compaction").click()
    expect(page.get_by_role("status")).to_contain_text(f"Compaction {entry_id} of default.carts is cancelled.")
    assert site.metastore.entries.get(entry_id).state is State.ABORTED
    page.get_by_role("link", name="History").click()
    page.get_by_role("button", name=f"Retry compaction {entry_id}").click()
    page.get_by_role("button", name="Retry the compaction").click()
    expect(page.get_by_role("status")).to_contain_text("default.carts is queued as compaction")
    (again,) = site.metastore.entries.queue(database="default", table="carts")
    assert (again.type.label, again.pool) == ("MINOR", "night")


def test_who_blocks_the_cleaner_is_named_and_aborted(shown: Shown, login: Login, site: Site) -> None:
    txn = shown.busy.blocker
    page = opened(login("opal"), shown.page_url("blocked"))
    expect(page.locator("tbody tr")).to_contain_text("laptop-7")
    page.get_by_role("button", name=f"Abort transaction {txn}").click()
    page.get_by_role("button", name="Abort the transaction").click()
    expect(page.get_by_text("Nothing blocks the cleaner.")).to_be_visible()
    assert site.metastore.transactions.state(TxnId(txn)) == "a"
    assert audited(shown, "compactor_abort_transaction") == [("opal", str(txn))]


def test_a_viewer_is_offered_nothing_and_gets_nothing(shown: Shown, login: Login, site: Site) -> None:
    page = opened(login("vera"), shown.page_url("queue"))
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(page.get_by_role("button", name="Compact…")).to_have_count(0)
    before = len(site.metastore.entries.queue())
    actions = ("compact", "pause", "resume", "override", "transactions/1/abort", "compactions/1/cancel")
    for path in (*actions, "compactions/1/retry"):
        asked = "path => fetch('api/' + path, {method: 'POST', body: JSON.stringify({table: 'default.returns_5'}),"
        headers = " headers: {'Content-Type': 'application/json', 'X-Compactor': '1'}}).then(r => r.status)"
        assert page.evaluate(asked + headers, path) == 403
    assert len(site.metastore.entries.queue()) == before


def test_a_page_of_another_origin_can_do_nothing_in_the_name_of_who_is_logged_in(
    shown: Shown, login: Login, site: Site
) -> None:
    before = [(e.id, e.state) for e in site.metastore.entries.queue()]
    target = f"{shown.servers.url}/compactor/default/api/compact"
    with foreign_page() as foreign:
        page = login("admin").new_page()
        page.goto(foreign, timeout=SLOW)
        body = json.dumps({"table": "default.returns_5"})
        for headers in ({}, {"X-Compactor": "1"}, {"Content-Type": "application/json", "X-Compactor": "1"}):
            for mode in ("cors", "no-cors"):
                options = {"method": "POST", "body": body, "credentials": "include", "mode": mode, "headers": headers}
                page.evaluate("([u, o]) => fetch(u, o).then(r => r.type, e => e.name)", [target, options])
        page.evaluate(
            "u => { const f = document.createElement('form'); f.method = 'POST'; f.action = u; f.enctype = 'text/plain';"
            ' const i = document.createElement(\'input\'); i.name = \'{"table": "default.returns_5", "type": "\';'
            " i.value = 'major\"}';"
            " f.append(i); document.body.append(f); f.submit(); }",
            target,
        )
        page.wait_for_url(target, timeout=SLOW)
        assert "nothing was done" in page.content()
    assert [(e.id, e.state) for e in site.metastore.entries.queue()] == before


def test_what_runs_is_watched_as_it_gets_on(shown: Shown, login: Login, site: Site) -> None:
    """Units, bytes and the time left, in both views and at both widths, without anybody reloading anything."""
    assert site.state is not None
    runs, number = site.state.runs, shown.busy.working
    half = Progress(entry_id=number, units=8, units_done=4, bytes=2_000_000_000, bytes_done=10**9, spent_ms=600_000)
    runs.record_progress(site.name, [half])
    try:
        page = opened(login("opal"), shown.page_url("queue"))
        for width, name in ((1440, "wide"), (400, "narrow")):
            page.set_viewport_size({"width": width, "height": 900})
            for view in ("queue", "overview"):
                runs.record_progress(site.name, [half])
                page.goto(shown.page_url(view), timeout=SLOW)
                row = page.locator("tbody tr").filter(has_text="default.invoices").first
                expect(row).to_contain_text("4 of 8 units, 1.0 GB of 2.0 GB")
                expect(row).to_contain_text(re.compile(r"working for .*, about .* left"))
                expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "50")
                expect(row.get_by_role("button", name=f"Cancel run of compaction {number}")).to_have_text("Cancel run…")
                assert outside(page) == [], (view, width)
                assert serious(page) == [], (view, width)
                picture(page, f"page-running-{view}-{name}")
                runs.record_progress(
                    site.name, [replace(half, units_done=6, bytes_done=1_500_000_000, spent_ms=900_000)]
                )
                expect(row).to_contain_text("6 of 8 units, 1.5 GB of 2.0 GB")
                expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "75")
    finally:
        runs.forget_progress(site.name, [number])


def test_nobody_sees_nothing(shown: Shown, browser: Browser) -> None:
    context = browser.new_context()
    answer = context.request.get(shown.page_url("tables"), timeout=SLOW)
    assert answer.status == 401
    context.close()


def serious(page: Page) -> list[tuple[str, str]]:
    """Returns what axe-core finds serious or critical: its rule and the first element."""
    # through the debugger, since the page lets no script of others in
    page.evaluate(AXE.read_text("utf-8") + "; undefined")
    found = page.evaluate("async () => (await axe.run()).violations")
    return [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")]


def outside(page: Page) -> list[str]:
    """Returns what lies beside the window or its box: the page itself, tables, buttons and inputs."""
    found: list[str] = page.evaluate(
        """() => {
          const wide = [document.scrollingElement, ...document.querySelectorAll('.scroll, dialog')]
            .filter((one) => one.scrollWidth > one.clientWidth + 1);
          const beside = [...document.querySelectorAll('button, input, select, a.button')].filter((one) => {
            const box = one.getBoundingClientRect();
            return box.width && !one.closest('.skip') && (box.right > innerWidth + 1 || box.left < -1);
          });
          return [...wide, ...beside].map((one) => `${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}`);
        }"""
    )
    return found


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.wait_for_timeout(300)
        page.screenshot(path=Path(PICTURES) / f"{name}.png")


def audited(shown: Shown, event: str) -> list[tuple[str, str]]:
    """Returns who did what to which object, from Airflow's own audit log."""
    logs = shown.servers.call("GET", f"/api/v2/eventLogs?event={event}", timeout=SLOW / 1000)["event_logs"]
    found = [(log["owner"], json.loads(log["extra"])) for log in logs]
    return [(owner, what.get("table") or what.get("txn") or what.get("entry_id")) for owner, what in found]


@contextmanager
def foreign_page() -> Iterator[str]:
    """Serves a page at another port of this machine: another origin, though the browser sends cookies as within one
    site.
    """

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>evil</title>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
