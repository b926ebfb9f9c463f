"""Errors of the clients of object stores, as Compactor raises them."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from botocore.exceptions import ClientError
from s3fs.errors import translate_boto_error

from compactor.base.errors import AccessDenied, StorageError
from compactor.storage.object_store import errors


def of_s3(code: str) -> Exception:
    """Returns the error that s3fs makes of an answer."""
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    error: Exception = translate_boto_error(ClientError(answer, "ListObjectsV2"))
    return error


def of_azure(code: str) -> Exception:
    error: Any = HttpResponseError("no")
    error.status_code, error.error_code = 403, code
    return error  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "error",
    [
        of_s3("AccessDenied"),
        of_azure("AuthorizationPermissionMismatch"),
        of_azure("AuthorizationFailure"),
        OSError("Forbidden: bucket/o\nno"),  # gcsfs
    ],
    ids=str,
)
def test_what_this_user_may_not_do_is_a_denial(error: Exception) -> None:
    with pytest.raises(AccessDenied, match="cannot list s3a://b/w: "), errors("list", "s3a://b/w"):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        of_s3("ExpiredToken"),
        of_s3("RequestTimeTooSkewed"),
        of_s3("InvalidAccessKeyId"),
        of_s3("SlowDown"),
        of_azure("AuthenticationFailed"),
        of_azure("ServerBusy"),
        ConnectionResetError("Forbidden: no"),
        TimeoutError(),
    ],
    ids=str,
)
def test_keys_clocks_and_connections_that_fail_are_no_denial(error: Exception) -> None:
    with pytest.raises(StorageError) as caught, errors("list", "s3a://b/w"):
        raise error
    assert not isinstance(caught.value, AccessDenied)
