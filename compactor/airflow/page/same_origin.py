"""Restricts actions to our own page: Airflow's login is a cookie that a browser sends from any site."""

from __future__ import annotations

from fastapi import HTTPException, Request, status

HEADER = "X-Compactor"  #: no form can send it, nor a script of another origin without permission
JSON = "application/json"


def from_our_page(request: Request) -> None:
    """Checks that the request has our header and that the browser does not attribute it to another origin.

    Raises:
        HTTPException: 403, it fails the check.
    """
    site = request.headers.get("sec-fetch-site", "same-origin")
    if HEADER not in request.headers or site != "same-origin":
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            f"This request did not come from the page itself (wanted: header {HEADER} and the same origin); nothing was "
            "done.",
        )


def must_be_json(request: Request) -> None:
    """Checks that the request says its body is JSON; parameters such as a charset do not matter.

    Raises:
        HTTPException: 415, it says something else, or nothing.
    """
    found = request.headers.get("content-type", "")
    if found.partition(";")[0].strip().lower() != JSON:
        raise HTTPException(
            status.HTTP_415_UNSUPPORTED_MEDIA_TYPE,
            f"The content type of this request is {found[:100]!r} (wanted: {JSON}); nothing was done.",
        )
