"""Opens the Iceberg catalogs of ``compactor.toml``.

``[catalog.NAME]`` holds what ``pyiceberg.catalog.load_catalog`` takes. A key that ends in ``_file`` names a file whose
content is the property, so that a secret need not be in ``compactor.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyiceberg.catalog import PY_CATALOG_IMPL, TYPE, URI, Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    TableAlreadyExistsError,
)
from sqlalchemy.exc import SQLAlchemyError

from compactor.base.errors import (
    BadSetting,
    CatalogUnavailable,
    CommitUnknown,
    CompactorError,
    MirrorOvertaken,
    NotFound,
    Refused,
)
from compactor.base.private_files import read_secret_text
from compactor.base.redaction import remember_secrets
from compactor.settings.compactor_toml import FILE_OF_PROPERTY
from compactor.site.site import Site

_CLIENTS = ("botocore", "thrift", "hive_metastore", "google")  #: packages of Glue's, Hive's and BigQuery's clients


def open_catalog(site: Site, name: str) -> Catalog:
    """Returns the catalog ``[catalog.NAME]`` of the configuration.

    Raises:
        BadSetting: the configuration has no such catalog, or PyIceberg refuses its properties.
        CatalogUnavailable: it cannot be reached.
    """
    if name not in site.catalogs:
        known = ", ".join(sorted(site.catalogs)) or "none"
        raise BadSetting(f"catalog {name!r}: compactor.toml has no [catalog.{name}]; catalogs there: {known}")
    properties = {**_read_properties(name, site), "commit.retry.num-retries": "0"}
    remember_secrets(properties)
    if not properties.keys() & {URI, TYPE, PY_CATALOG_IMPL}:
        raise BadSetting(
            f"[catalog.{name}]: has neither type nor uri; write both, as PyIceberg's documentation names them"
        )
    try:
        with catalog_errors(f"catalog {name}"):
            return load_catalog(name, **properties)
    except (ValueError, NotInstalledError, ModuleNotFoundError) as error:
        raise BadSetting(f"[catalog.{name}]: PyIceberg cannot open it: {error}") from error


def _read_properties(name: str, site: Site) -> dict[str, str]:
    properties = {}
    for key, value in site.catalogs[name].items():
        if key.endswith(FILE_OF_PROPERTY):
            key, value = (
                key.removesuffix(FILE_OF_PROPERTY),
                read_secret_text(Path(value), f"[catalog.{name}] {key}").strip(),
            )
        properties[key] = value
    return properties


@contextmanager
def catalog_errors(what: str) -> Iterator[None]:
    """Turns errors of PyIceberg and of a catalog's client into errors of our tree.

    Raises:
        MirrorOvertaken: somebody else has committed.
        CommitUnknown: the answer to a commit was lost.
        NotFound, Refused: the table or namespace does not exist, or exists already.
        CatalogUnavailable: the catalog cannot be reached, or refuses the request.
    """
    try:
        yield
    except CompactorError:
        raise
    except CommitFailedException as error:
        raise MirrorOvertaken(
            f"{what}: another program committed to the mirror's table at the same time: {error}"
        ) from error
    except CommitStateUnknownException as error:
        raise CommitUnknown(f"{what}: the answer to a commit was lost; the next pass finds out: {error}") from error
    except TableAlreadyExistsError as error:
        raise Refused(
            f"{what}: the table exists already, and a mirror takes over no table; name another one"
        ) from error
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise NotFound(f"{what}: not in the catalog: {error}") from error
    except FileNotFoundError as error:
        raise CatalogUnavailable(f"{what}: the catalog names a file that is not there; put it back: {error}") from error
    except Exception as error:
        if not (isinstance(error, RESTError | SQLAlchemyError | OSError) or _is_of_client(error)):
            raise
        raise CatalogUnavailable(f"{what}: the catalog does not answer, or refuses: {error}") from error


def _is_of_client(error: Exception) -> bool:
    """Returns true for errors of clients that need not be installed."""
    return any(kind.__module__.partition(".")[0] in _CLIENTS for kind in type(error).__mro__)
