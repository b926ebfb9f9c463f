"""Catalogs of compactor.toml, opened by PyIceberg."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from botocore.exceptions import NoRegionError
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    ServerError,
    TableAlreadyExistsError,
)

from compactor.base.errors import (
    BadSetting,
    CatalogUnavailable,
    CommitUnknown,
    CompactorError,
    MirrorOvertaken,
    NotFound,
    Refused,
)
from compactor.base.redaction import redact
from compactor.mirror.catalogs import catalog_errors, open_catalog
from compactor.site.site import Site


def test_a_catalog_is_opened_with_a_property_from_a_file(deployment: Site, tmp_path: Path) -> None:
    secret = tmp_path / "uri"
    secret.write_text(f"sqlite:///{tmp_path}/secret-place.db\n")
    secret.chmod(0o600)
    site = replace(deployment, catalogs={"lake": {"type": "sql", "uri_file": str(secret), "warehouse": "/w"}})
    catalog = open_catalog(site, "lake")
    assert catalog.properties["uri"] == f"sqlite:///{tmp_path}/secret-place.db"
    assert catalog.properties["commit.retry.num-retries"] == "0"
    catalog.close()


def test_a_secret_of_a_file_is_not_shown(deployment: Site, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("open-sesame-4711")
    secret.chmod(0o600)
    uri = f"sqlite:///{tmp_path}/c.db"
    site = replace(deployment, catalogs={"lake": {"type": "sql", "uri": uri, "token_file": str(secret)}})
    open_catalog(site, "lake").close()
    assert "open-sesame" not in redact("refused open-sesame-4711")


def test_a_secret_that_others_can_read_is_refused(deployment: Site, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("open-sesame")
    secret.chmod(0o644)
    site = replace(deployment, catalogs={"lake": {"type": "sql", "uri": "sqlite://", "token_file": str(secret)}})
    with pytest.raises(BadSetting, match=r"\[catalog\.lake\] token"):
        open_catalog(site, "lake")


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"warehouse": "/w"}, "neither type nor uri"),
        ({"type": "files"}, "PyIceberg cannot open it: 'files' is not a valid CatalogType"),
        ({"type": "sql"}, "URI missing"),
        ({"uri": "oracle://x"}, "Could not infer the catalog type"),
        ({"py-catalog-impl": "no.such.Catalog"}, "PyIceberg cannot open it"),
    ],
)
def test_properties_that_pyiceberg_refuses(deployment: Site, properties: dict[str, str], why: str) -> None:
    with pytest.raises(BadSetting, match=rf"\[catalog\.lake\].*{why}"):
        open_catalog(replace(deployment, catalogs={"lake": properties}), "lake")


def test_an_unknown_catalog_is_refused_with_the_known_ones(deployment: Site) -> None:
    site = replace(deployment, catalogs={"lake": {}, "attic": {}})
    with pytest.raises(BadSetting, match=r"no \[catalog\.lak\]; catalogs there: attic, lake"):
        open_catalog(site, "lak")


def test_a_catalog_that_is_not_there_is_unavailable(deployment: Site) -> None:
    site = replace(deployment, catalogs={"lake": {"type": "rest", "uri": "http://127.0.0.1:1"}})
    with pytest.raises(CatalogUnavailable, match="catalog lake: the catalog does not answer"):
        open_catalog(site, "lake")


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (CommitFailedException("x"), MirrorOvertaken),
        (CommitStateUnknownException("x"), CommitUnknown),
        (NoSuchTableError("x"), NotFound),
        (TableAlreadyExistsError("x"), Refused),
        (ServerError("x"), CatalogUnavailable),
        (ConnectionRefusedError("x"), CatalogUnavailable),
        (NoRegionError(), CatalogUnavailable),  # of Glue's client
    ],
)
def test_errors_of_a_catalog_are_ours(error: Exception, ours: type[CompactorError]) -> None:
    with pytest.raises(ours, match="lake: "), catalog_errors("lake"):
        raise error


def test_a_missing_file_and_errors_of_our_own_are_not_the_catalogs() -> None:
    with pytest.raises(CatalogUnavailable, match=r"names a file that is not there.*m1\.avro"), catalog_errors("lake"):
        raise FileNotFoundError("m1.avro")
    with pytest.raises(IndexError), catalog_errors("lake"):
        raise IndexError
