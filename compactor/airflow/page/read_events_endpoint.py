"""The endpoint to which programs, such as Trino's HTTP event listener, report their queries.

They have a token instead of a login, which permits nothing else.
"""

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
from compactor.airflow.page.readers import Limits, Overloaded, PageWork, find_readers
from compactor.base.errors import BadFile, BadSetting, CompactorError
from compactor.base.private_files import read_secret_text
from compactor.base.redaction import remember
from compactor.requests.import_reads import TooManyEvents, import_reads
from compactor.site.deployment import Configuration, open_site

PATH = "/reads"
MOST_BODY = 8_000_000  #: bytes of a request
MOST_BODIES = 4  #: that this process receives at a time, to bound its memory
MOST_EVENTS = 10_000  #: of a request; more would occupy a thread for longer than a client waits
LEAST_TOKEN = 16  #: characters; a shorter one can be guessed
TOKEN_FILE = "compactor.reads.token.file"
_SCHEME = "bearer "

log = logging.getLogger(__name__)

router = APIRouter()


def _authenticate(metastore: str, request: Request) -> Configuration:
    """Returns the configuration of the metastore whose token the request has.

    Raises:
        HTTPException: 401, the token is missing or wrong, or there is no such metastore; the answer does not say which. 503,
            the site's own token is unusable; only the log says why, since the client may be a stranger.
    """
    header = request.headers.get("Authorization", "")
    if metastore in metastore_names() and header.lower().startswith(_SCHEME):
        configuration, token = _read_configuration(metastore)
        if token is not None and hmac.compare_digest(header[len(_SCHEME) :].strip().encode(), token.encode()):
            return configuration
    raise HTTPException(
        status.HTTP_401_UNAUTHORIZED,
        f"Expected: the header Authorization: Bearer TOKEN, with the token in the file that {TOKEN_FILE} names.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _read_configuration(metastore: str) -> tuple[Configuration, str | None]:
    try:
        configuration = CompactorHook(metastore).configuration()
        return configuration, _read_token(configuration.settings.text(TOKEN_FILE))
    except CompactorError as error:
        log.error("metastore %s: no query can be reported: %s", metastore, error)
        raise HTTPException(
            status.HTTP_503_SERVICE_UNAVAILABLE, "The token cannot be checked; the server's log says why."
        ) from None


def _read_token(path: str) -> str | None:
    if not path:
        return None
    token = read_secret_text(Path(path), TOKEN_FILE).strip()
    if len(token) < LEAST_TOKEN:
        raise BadSetting(f"{TOKEN_FILE} {path}: {len(token)} characters; expected: {LEAST_TOKEN} or more")
    remember(token)
    return token


@router.post(PATH)
async def receive_reads(
    metastore: str, request: Request, configuration: Annotated[Configuration, Depends(_authenticate)]
) -> dict[str, int]:
    """Stores the reads in the events of the body, and returns their numbers."""
    limits = Limits.from_settings(configuration.settings)
    async with _take_place(metastore):
        body = await _read_body(request, limits)
        return await find_readers(metastore, PageWork.REPORT).run(partial(_store, configuration, body), limits)


def _store(configuration: Configuration, body: bytes) -> dict[str, int]:
    try:
        lines = body.decode("utf-8").split("\n")
        with open_site(configuration) as site:
            return import_reads(site, lines, "the request", most=MOST_EVENTS).to_json()
    except TooManyEvents as error:
        raise HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, f"{error}.") from error
    except UnicodeDecodeError as error:
        detail = f"the request is not UTF-8 at byte {error.start}; expected: JSON in UTF-8."
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, detail) from error
    except BadFile as error:
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, f"{error}.") from error


_received = 0  #: bodies that are being received or stored; only the event loop counts them


@asynccontextmanager
async def _take_place(metastore: str) -> AsyncIterator[None]:
    """Takes one of the places for bodies.

    Raises:
        Overloaded: all places are taken.
    """
    global _received
    if _received >= MOST_BODIES:
        raise Overloaded(
            thing=f"metastore {metastore}",
            problem=f"{MOST_BODIES} other requests report reads now, and nothing was stored",
            remedy="Try again soon.",
            retry_after=1,
        )
    _received += 1
    try:
        yield
    finally:
        _received -= 1


async def _read_body(request: Request, limits: Limits) -> bytes:
    """Returns the body.

    Raises:
        HTTPException: 413, the body is too long; the rest is not read. 408, it did not arrive within the page's time-out.
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
