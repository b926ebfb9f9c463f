"""The page as an application inside Airflow's own: static files, queries and actions."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse

from compactor.airflow.page import actions, queries, read_events_endpoint
from compactor.airflow.page.access import list_visible, may_see
from compactor.airflow.page.readers import Overloaded
from compactor.airflow.page.request_bounds import BoundedBody
from compactor.base.errors import BadSetting, CompactorError, DatabaseUnavailable, NotFound, Refused
from compactor.base.redaction import redact_plain

log = logging.getLogger(__name__)
STATIC = Path(__file__).parent / "static"
VIEWS = ("overview", "tables", "queue", "blocked", "history", "settings")
#: Only our own files may load, and only Airflow's own pages may embed them.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_STATUS: tuple[tuple[type[CompactorError], int], ...] = (
    (NotFound, status.HTTP_404_NOT_FOUND),
    (Refused, status.HTTP_409_CONFLICT),
    (BadSetting, status.HTTP_400_BAD_REQUEST),
    (DatabaseUnavailable, status.HTTP_503_SERVICE_UNAVAILABLE),
)
_SENTENCES = {
    status.HTTP_401_UNAUTHORIZED: "You are not logged in to Airflow, or your login has ended. Log in and try again.",
    status.HTTP_403_FORBIDDEN: "Airflow does not accept your login. Log in and try again.",
}

pages = APIRouter()


@pages.get("/")
def redirect_to_overview(metastores: Annotated[tuple[str, ...], Depends(list_visible)]) -> RedirectResponse:
    """Redirects to the overview of the first metastore that the user may see."""
    return RedirectResponse(f"{metastores[0]}/{VIEWS[0]}")


@pages.get("/.static/{name}", dependencies=[Depends(list_visible)])
def serve_file(name: str) -> FileResponse:
    """Serves one of our files; no metastore's name begins with a dot."""
    path = STATIC / name
    if name not in os.listdir(STATIC) or path.suffix not in _TYPES:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"There is no file {name}.")
    return FileResponse(path, media_type=_TYPES[path.suffix])


@pages.get("/{metastore}/{view}", dependencies=[Depends(may_see)])
def serve_page(view: str) -> FileResponse:
    """Serves the page; it reads its view from its URL."""
    if view not in VIEWS:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"There is no view {view}; there are {', '.join(VIEWS)}.")
    return FileResponse(STATIC / "index.html", media_type="text/html")


class PublicJson(JSONResponse):
    """An answer without secrets."""

    def render(self, content: Any) -> bytes:
        return super().render(redact_plain(content))


def build() -> FastAPI:
    """Builds the application; API documentation is off, because it would be public."""
    app = FastAPI(title="Compactor", docs_url=None, redoc_url=None, openapi_url=None, default_response_class=PublicJson)
    app.include_router(queries.router, prefix="/{metastore}/api")
    app.include_router(actions.router, prefix="/{metastore}/api")
    app.include_router(read_events_endpoint.router, prefix="/{metastore}/api")
    app.include_router(pages)
    app.add_exception_handler(CompactorError, _answer_error)
    app.add_exception_handler(Overloaded, _answer_overloaded)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(Exception, _answer_broken)
    app.add_middleware(BoundedBody, unbounded=f"/api{read_events_endpoint.PATH}")
    app.middleware("http")(_add_headers)
    return app


async def _add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _answer_error(request: Request, error: Exception) -> JSONResponse:
    code = next((code for kind, code in _STATUS if isinstance(error, kind)), status.HTTP_409_CONFLICT)
    return PublicJson({"detail": str(error)}, code)


def _answer_overloaded(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Overloaded)
    headers = {"Retry-After": str(error.retry_after)}
    return PublicJson(error.to_json(), status.HTTP_503_SERVICE_UNAVAILABLE, headers=headers)


def _answer_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = error.detail if str(error.detail).endswith(".") else _SENTENCES.get(error.status_code, error.detail)
    return PublicJson({"detail": detail}, error.status_code, headers=error.headers)


def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(map(str, fault['loc'][1:])) or 'the request'}: {fault['msg']}" for fault in error.errors()]
    return PublicJson({"detail": f"This was not understood: {'; '.join(faults)}."}, status.HTTP_400_BAD_REQUEST)


def _answer_broken(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s broke", request.method, request.url.path, exc_info=error)
    detail = "An internal error occurred; the log of Airflow's api-server has the details."
    return PublicJson({"detail": detail}, status.HTTP_500_INTERNAL_SERVER_ERROR)
