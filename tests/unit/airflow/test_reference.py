from __future__ import annotations

from pathlib import Path

from compactor.airflow.options import OPTIONS
from compactor.airflow.reference import page
from compactor.compaction.pool_policy import KEYS

DOCUMENT = Path(__file__).parents[3] / "docs" / "airflow-settings.md"


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text("utf-8") == page()


def test_nothing_is_left_out() -> None:
    text = page()
    assert all(f"| `{key}` |" in text for key in (*OPTIONS, *(key.key for key in KEYS)))
