"""Where programs tell of the queries that they ran: Trino's HTTP event listener posts here. They have a token instead of a
login, and may do nothing else with it."""

from __future__ import annotations

import hmac
import logging
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, status

from compactor.airflow.configuration import metastore_names
from compactor.airflow.hooks import CompactorHook
from compactor.airflow.page.readers import Limits, PageWork, readers_of
from compactor.deployment import Configuration, open_site
from compactor.errors import BadFile, BadSetting, CompactorError
from compactor.service.requests.import_reads import import_reads

MOST_BODY = 8_000_000  #: bytes of a request
LEAST_TOKEN = 16  #: characters; a shorter one is guessed
TOKEN_FILE = "compactor.reads.token.file"
_SCHEME = "bearer "

log = logging.getLogger(__name__)

router = APIRouter()


def _teller(metastore: str, request: Request) -> Configuration:
    """Returns the configuration of the metastore whose token the request has.

    Raises:
        HTTPException: 401, it has none, or another one, or there is no such metastore: nobody is told which; 503, the
            site's own token is of no use, and the log says why: whoever asks is a stranger so far.
    """
    given = request.headers.get("Authorization", "")
    if metastore in metastore_names() and given.lower().startswith(_SCHEME):
        configuration, wanted = _configured(metastore)
        if wanted is not None and hmac.compare_digest(given[len(_SCHEME) :].strip().encode(), wanted.encode()):
            return configuration
    raise HTTPException(
        status.HTTP_401_UNAUTHORIZED,
        f"Wanted: the header Authorization: Bearer TOKEN, with the token in the file that {TOKEN_FILE} names.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _configured(metastore: str) -> tuple[Configuration, str | None]:
    try:
        configuration = CompactorHook(metastore).configuration()
        return configuration, _token(configuration.settings.text(TOKEN_FILE))
    except CompactorError as error:
        log.error("metastore %s: no query can be told: %s", metastore, error)
        raise HTTPException(
            status.HTTP_503_SERVICE_UNAVAILABLE, "The token cannot be checked; the server's log says why."
        ) from None


def _token(path: str) -> str | None:
    if not path:
        return None
    try:
        token = Path(path).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise BadSetting(f"{TOKEN_FILE} {path}: it cannot be read ({type(error).__name__})") from error
    if len(token) < LEAST_TOKEN:
        raise BadSetting(f"{TOKEN_FILE} {path}: {len(token)} characters; wanted: {LEAST_TOKEN} or more")
    return token


@router.post("/reads")
async def tell(
    metastore: str, request: Request, configuration: Annotated[Configuration, Depends(_teller)]
) -> dict[str, int]:
    """Stores the reads that the events in the body tell of, and returns their numbers."""
    body = await _body(request)
    limits = Limits.of(configuration.settings)
    return await readers_of(metastore, PageWork.ACT).run(partial(_store, configuration, body), limits)


def _store(configuration: Configuration, body: bytes) -> dict[str, int]:
    lines = body.decode("utf-8", "replace").splitlines()
    try:
        with open_site(configuration) as site:
            return import_reads(site, lines, "the request").to_json()
    except BadFile as error:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, f"{error}.") from error


async def _body(request: Request) -> bytes:
    """Returns the body.

    Raises:
        HTTPException: 413, it is too long; no more of it is read.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise HTTPException(
                status.HTTP_413_CONTENT_TOO_LARGE,
                f"The request has more than {MOST_BODY} bytes; send fewer events at once, or use compactor reads import.",
            )
    return body
