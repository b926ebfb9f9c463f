"""Actions come from our own page alone: Airflow's login is a cookie that a browser sends from anywhere."""

from __future__ import annotations

from fastapi import HTTPException, Request, status

HEADER = "X-Compactor"  #: which no form can send, and no script of another origin without being allowed to


def from_our_page(request: Request) -> None:
    """Nothing, where the request bears our header and the browser does not say that another origin made it.

    Raises:
        HTTPException: 403, otherwise.
    """
    site = request.headers.get("sec-fetch-site", "same-origin")
    if HEADER not in request.headers or site != "same-origin":
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            f"This was not asked for by the page itself (header {HEADER} and the same origin are wanted); nothing was done.",
        )
