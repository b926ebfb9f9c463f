from __future__ import annotations

import threading
from pathlib import Path

import pytest

from compactor.base.errors import Refused
from demo.demo_folder import DemoPaths


def test_a_demo_folder_has_an_embedded_metastore_in_mode_clean(tmp_path: Path) -> None:
    place = DemoPaths(folder=tmp_path / "demo")
    place.make()
    with place.site() as site:
        assert site.metastore.catalog.tables() == []
        assert site.state is not None
        assert site.settings.text("compactor.mode") == "clean"


def test_the_environment_cannot_lead_it_to_another_metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", f"sqlite:///{tmp_path / 'precious.db'}")
    place = DemoPaths(folder=tmp_path / "demo")
    place.make()
    with place.site() as site:
        assert str(tmp_path / "demo") in site.metastore.database.url
    assert not (tmp_path / "precious.db").exists()


def test_a_second_run_starts_from_scratch(tmp_path: Path) -> None:
    place = DemoPaths(folder=tmp_path / "demo")
    place.make()
    (place.warehouse / "old").mkdir()
    place.make()
    assert list(place.warehouse.iterdir()) == []


def test_a_folder_that_no_demo_made_is_not_wiped(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", "utf-8")
    with pytest.raises(Refused, match="no demo made it"):
        DemoPaths(folder=tmp_path).make()
    assert (tmp_path / "thesis.txt").read_text("utf-8") == "years of work"


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    place = DemoPaths(folder=tmp_path / "demo")
    seen: list[BaseException] = []

    def second() -> None:
        try:
            with place.lock():
                pass
        except Refused as error:
            seen.append(error)

    with place.lock():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert "another running demo" in str(seen[0])
    with place.lock():
        pass


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", "utf-8")
    (tmp_path / "demo.lock").symlink_to("thesis.txt")
    with pytest.raises(OSError), DemoPaths(folder=tmp_path / "demo").lock():
        pass
    assert (tmp_path / "thesis.txt").read_text("utf-8") == "years of work"
