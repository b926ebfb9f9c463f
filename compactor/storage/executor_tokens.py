"""Delegation tokens of HDFS for executors, which have neither ticket nor keytab.

The driver can log in. It fetches a token for each cluster when a unit first needs one, renews it while it works, and cancels
it at the end. If the driver dies, nobody renews its token, and the NameNode forgets it after a day.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

from compactor.base.errors import StorageError
from compactor.storage.hdfs_client import HdfsClient, handed_over_token, hdfs_errors, split_location
from compactor.storage.hdfs_options import HdfsOptions
from compactor.storage.store_options import SCHEMES, StoreOptions

log = logging.getLogger(__name__)
_RENEWED_AT = 0.75  #: the part of a token's time after which it is renewed
_LEAST_S = 1.0  #: between two attempts to renew a token


@dataclass(slots=True, kw_only=True)
class _ExecutorToken:
    """One token.

    ``until`` is when it expires, in seconds since 1970; ``life`` is how long a renewal lasts.
    """

    authority: str
    options: StoreOptions
    text: str = field(default="", repr=False)
    until: float = 0.0
    life: float = 0.0
    spent: bool = False  #: it cannot be renewed any more; new units get another token


class ExecutorTokens:
    """The tokens of one application, cancelled at its end. Several threads may use them."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: list[_ExecutorToken] = []
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> ExecutorTokens:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def standing_in(self, options: StoreOptions, location: str) -> StoreOptions:
        """Returns an executor's options for ``location``: a token in place of a log-in by Kerberos.

        Raises:
            StorageError: the cluster gives no token.
        """
        if SCHEMES.get(location.partition(":")[0]) != "hdfs":
            return options
        authority = split_location(location)[0]
        cluster = HdfsOptions.from_table(f'"hdfs://{authority}"', options.of_place("hdfs", authority))
        if cluster.kerberos is None:
            return options
        # a process that itself has only a token can pass on nothing else
        return options.by_token(
            authority, handed_over_token(authority, cluster) or self._current(options, authority).text
        )

    def cancel(self) -> None:
        """Cancels all valid tokens. If that fails for one, the log names it, and it expires later."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        for token in self._tokens:
            if token.until > self._clock():
                try:
                    _ask(token, "CANCELDELEGATIONTOKEN", "cancel the delegation token of")
                except StorageError as error:
                    log.warning("%s; it expires within %.0f s", error, token.until - self._clock())
        self._tokens.clear()

    def _current(self, options: StoreOptions, authority: str) -> _ExecutorToken:
        with self._lock:
            for token in self._tokens:
                is_same_cluster = (token.options, token.authority) == (options, authority)
                if is_same_cluster and not token.spent and token.until > self._clock():
                    return token
            token = self._fetch(options, authority)
            self._tokens.append(token)
            thread = threading.Thread(target=self._keep, args=(token,), name="renews a delegation token", daemon=True)
            self._threads.append(thread)
            thread.start()
            return token

    def _fetch(self, options: StoreOptions, authority: str) -> _ExecutorToken:
        """Fetches a token and renews it at once, because only a renewal tells until when it is valid."""
        token = _ExecutorToken(authority=authority, options=options)
        answer = _ask(token, "GETDELEGATIONTOKEN", "get a delegation token from")
        body = answer.get("Token")
        if not isinstance(body, dict) or not body.get("urlString"):
            raise StorageError(
                f"cannot get a delegation token from hdfs://{authority}: it gives none, so it does not use Kerberos; "
                "leave kerberos out of [storage.hdfs]"
            )
        token.text = str(body["urlString"])
        self._renew(token)
        token.life = max(0.0, token.until - self._clock())
        log.info(
            "hdfs://%s: executors use a delegation token, renewed every %.0f s", authority, token.life * _RENEWED_AT
        )
        return token

    def _renew(self, token: _ExecutorToken) -> None:
        answer = _ask(token, "RENEWDELEGATIONTOKEN", "renew the delegation token of")
        token.until = float(answer["long"]) / 1000  # type: ignore[arg-type]

    def _keep(self, token: _ExecutorToken) -> None:
        """Renews a token until the end, or until the cluster refuses to renew it."""
        while not token.spent and not self._ending.wait(max(_LEAST_S, _RENEWED_AT * (token.until - self._clock()))):
            try:
                self._renew(token)
            except StorageError as error:
                token.spent = token.until <= self._clock()
                log.warning("%s; %s", error, "new units get another" if token.spent else "it is tried again")
                continue
            if token.until - self._clock() < token.life / 2:
                token.spent = True  # close to the end of its whole life, after which no renewal helps


def _ask(token: _ExecutorToken, operation: str, verb: str) -> dict[str, object]:
    """Returns the answer to an operation that fetches, renews or cancels a token."""
    with hdfs_errors(verb, f"hdfs://{token.authority}"):
        client = HdfsClient(token.authority, token.options.admitted("hdfs", token.authority))
        parameters = {"token": token.text} if token.text else {}
        answer = client.ask(operation, "PUT" if parameters else "GET", "/", redirect=True, **parameters)
        content: dict[str, object] = answer.json() if answer.content else {}
        return content
