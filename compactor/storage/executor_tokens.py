"""Delegation tokens of HDFS, which stand in for a ticket where units run: executors have neither ticket nor keytab.

The driver, which can log in, fetches a token for each cluster when a unit first needs it, renews it for as long as it
works, and cancels it in the end. One that dies leaves a token that nobody renews and that the NameNode forgets after a day.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

from compactor.base.errors import StorageError
from compactor.storage.hdfs_client import HdfsClient, given_token, saying_plainly, split_location
from compactor.storage.hdfs_options import HdfsOptions
from compactor.storage.store_options import SCHEMES, StoreOptions

log = logging.getLogger(__name__)
_RENEWED_AT = 0.75  #: of the time until it expires
_LEAST_S = 1.0  #: between two attempts to renew one


@dataclass(slots=True, kw_only=True)
class _Token:
    """One token of ours. ``until`` is when it expires, in seconds since 1970; ``life`` how long a renewal lasts."""

    authority: str
    options: StoreOptions
    text: str = field(default="", repr=False)
    until: float = 0.0
    life: float = 0.0
    spent: bool = False  #: units get another one; it can be renewed no longer


class ExecutorTokens:
    """The tokens of one application; its end cancels them. May be used by several threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: list[_Token] = []
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> ExecutorTokens:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def standing_in(self, options: StoreOptions, location: str) -> StoreOptions:
        """Returns the options with which an executor reaches ``location``: a token in place of a log-in by Kerberos.

        Raises:
            StorageError: the cluster gives no token.
        """
        if SCHEMES.get(location.partition(":")[0]) != "hdfs":
            return options
        authority = split_location(location)[0]
        wanted = HdfsOptions.of(f'"hdfs://{authority}"', options.of_place("hdfs", authority))
        if wanted.kerberos is None:
            return options
        # a process that was given a token itself can pass on nothing else
        return options.by_token(authority, given_token(authority, wanted) or self._current(options, authority).text)

    def cancel(self) -> None:
        """Cancels all tokens that are still valid. One that cannot be cancelled is named in the log, and expires."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        for token in self._tokens:
            if token.until > self._clock():
                try:
                    _ask(token, "CANCELDELEGATIONTOKEN", "cancel the delegation token of")
                except StorageError as error:
                    log.warning("%s; it expires by itself within %.0f s", error, token.until - self._clock())
        self._tokens.clear()

    def _current(self, options: StoreOptions, authority: str) -> _Token:
        with self._lock:
            for token in self._tokens:
                is_wanted = (token.options, token.authority) == (options, authority)
                if is_wanted and not token.spent and token.until > self._clock():
                    return token
            token = self._fetched(options, authority)
            self._tokens.append(token)
            thread = threading.Thread(target=self._keep, args=(token,), name="renews a delegation token", daemon=True)
            self._threads.append(thread)
            thread.start()
            return token

    def _fetched(self, options: StoreOptions, authority: str) -> _Token:
        """Fetches a token. A NameNode says only as it is renewed until when it is valid, so that this is done at once."""
        token = _Token(authority=authority, options=options)
        answer = _ask(token, "GETDELEGATIONTOKEN", "get a delegation token from")
        found = answer.get("Token")
        if not isinstance(found, dict) or not found.get("urlString"):
            raise StorageError(
                f"cannot get a delegation token from hdfs://{authority}: it gives none, so it is no cluster of Kerberos; "
                "leave kerberos out of [storage.hdfs]"
            )
        token.text = str(found["urlString"])
        self._renew(token)
        token.life = max(0.0, token.until - self._clock())
        log.info(
            "hdfs://%s: executors use a delegation token, renewed every %.0f s", authority, token.life * _RENEWED_AT
        )
        return token

    def _renew(self, token: _Token) -> None:
        answer = _ask(token, "RENEWDELEGATIONTOKEN", "renew the delegation token of")
        token.until = float(answer["long"]) / 1000  # type: ignore[arg-type]

    def _keep(self, token: _Token) -> None:
        """Renews a token until the end, or until the cluster lets it live no longer."""
        while not token.spent and not self._ending.wait(max(_LEAST_S, _RENEWED_AT * (token.until - self._clock()))):
            try:
                self._renew(token)
            except StorageError as error:
                token.spent = token.until <= self._clock()
                log.warning("%s; %s", error, "units that begin now get another" if token.spent else "it is tried again")
                continue
            if token.until - self._clock() < token.life / 2:
                token.spent = True  # close to the end of its whole life, after which no renewal helps


def _ask(token: _Token, operation: str, verb: str) -> dict[str, object]:
    """Returns the answer to an operation on a token, or to the one that fetches it, logged in as the configuration says."""
    with saying_plainly(verb, f"hdfs://{token.authority}"):
        client = HdfsClient(token.authority, token.options.admitted("hdfs", token.authority))
        parameters = {"token": token.text} if token.text else {}
        answer = client.ask(operation, "PUT" if parameters else "GET", "/", redirect=True, **parameters)
        found: dict[str, object] = answer.json() if answer.content else {}
        return found
