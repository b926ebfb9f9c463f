"""Where programs tell of the queries that they ran: Trino's HTTP event listener posts here. They have a token instead of a
login, and may do nothing else with it."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, status

from compactor.airflow.configuration import metastore_names
from compactor.airflow.hooks import CompactorHook
from compactor.airflow.page.readers import Limits, Overloaded, PageWork, readers_of
from compactor.base.errors import BadFile, BadSetting, CompactorError
from compactor.base.private_files import read_secret_text
from compactor.base.redaction import remember
from compactor.requests.import_reads import TooManyEvents, import_reads
from compactor.site.deployment import Configuration, open_site

PATH = "/reads"
MOST_BODY = 8_000_000  #: bytes of a request
MOST_BODIES = 4  #: that this process receives at a time, so that they take a bounded part of its memory
MOST_EVENTS = 10_000  #: of a request; more of them would hold their thread for longer than anybody waits
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
    token = read_secret_text(Path(path), TOKEN_FILE).strip()
    if len(token) < LEAST_TOKEN:
        raise BadSetting(f"{TOKEN_FILE} {path}: {len(token)} characters; wanted: {LEAST_TOKEN} or more")
    remember(token)
    return token


@router.post(PATH)
async def tell(
    metastore: str, request: Request, configuration: Annotated[Configuration, Depends(_teller)]
) -> dict[str, int]:
    """Stores the reads that the events in the body tell of, and returns their numbers."""
    limits = Limits.of(configuration.settings)
    async with _place(metastore):
        body = await _body(request, limits)
        return await readers_of(metastore, PageWork.TELL).run(partial(_store, configuration, body), limits)


def _store(configuration: Configuration, body: bytes) -> dict[str, int]:
    try:
        lines = body.decode("utf-8").split("\n")
        with open_site(configuration) as site:
            return import_reads(site, lines, "the request", most=MOST_EVENTS).to_json()
    except TooManyEvents as error:
        raise HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, f"{error}.") from error
    except UnicodeDecodeError as error:
        detail = f"the request is no UTF-8 at byte {error.start}; wanted: JSON in UTF-8."
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, detail) from error
    except BadFile as error:
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, f"{error}.") from error


_received = 0  #: bodies that are received or read now; only the event loop counts them


@asynccontextmanager
async def _place(metastore: str) -> AsyncIterator[None]:
    """Takes one of the places for bodies.

    Raises:
        Overloaded: all are taken.
    """
    global _received
    if _received >= MOST_BODIES:
        raise Overloaded(
            thing=f"metastore {metastore}",
            found=f"{MOST_BODIES} other requests tell of reads now, and nothing was stored",
            remedy="Try again soon.",
            retry_after=1,
        )
    _received += 1
    try:
        yield
    finally:
        _received -= 1


async def _body(request: Request, limits: Limits) -> bytes:
    """Returns the body.

    Raises:
        HTTPException: 413, it is too long; no more of it is read. 408, it has not come within the page's time-out.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BODY:
                    raise HTTPException(
                        status.HTTP_413_CONTENT_TOO_LARGE,
                        f"The request has more than {MOST_BODY} bytes; send fewer events at once, or use compactor reads "
                        "import.",
                    )
    except TimeoutError as error:
        raise HTTPException(
            status.HTTP_408_REQUEST_TIMEOUT,
            f"The request was not complete within {limits.seconds:g} s (compactor.page.timeout); nothing was stored.",
        ) from error
    return bytes(body)
