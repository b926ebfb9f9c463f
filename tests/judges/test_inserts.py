"""Every reader finds the rows that were inserted, all of them and with any predicate."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from compactor.base.errors import NotLossless
from compactor.site.deployment import configure, open_site
from compactor.tables import Store
from tests.judges import PYORC, JavaJudge, Judge, Row, judges, orc_1_5, to_arrow, trino_476
from tests.judges.examples import WRITERS, Example, inserts, writers_of
from tests.judges.judged_table import as_shown
from tests.support.sizes import sized

_EXAMPLES = int(os.environ.get("JUDGED_EXAMPLES", sized(short=20, whole=1500))) // 2
_PHASES = (Phase.generate, Phase.shrink)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, empty_metastore: Path) -> Iterator[tuple[Store, Path]]:
    """A metastore and the folder of a database in it, in which each example has a table of its own."""
    folder = tmp_path_factory.mktemp("inserts")
    (folder / "metastore.db").write_bytes(empty_metastore.read_bytes())
    environment = {
        "COMPACTOR_METASTORE_URL": f"sqlite:///{folder / 'metastore.db'}",
        "COMPACTOR_WAREHOUSE": str(folder),
    }
    with open_site(configure("default", environment=environment)) as site:
        store = Store(site)
        store.create_database("d", str(folder / "d"))
        yield store, folder / "d"


def _shows_all(judge: Judge, example: Example) -> bool:
    """Tells whether a judge shows every value as it was inserted."""
    if isinstance(judge, JavaJudge):
        return True
    if judge is PYORC and WRITERS["pyorc"] not in writers_of(example.columns):
        return False  # it has a key of a map only once
    # old days are written in the Julian calendar, which others do not know
    return not example.is_old and not (judge is trino_476() and example.is_early_for_trino)


def _loses(judge: Judge, path: Path, example: Example) -> Iterator[str]:
    """Yields what a judge does not find in a file."""
    (file,) = example.files
    if judge is orc_1_5() and file.options["orc.compress"] == "ZSTD":
        return  # which it cannot read

    def texts(rows: Iterable[Row]) -> list[str]:
        return sorted(as_shown(judge, repr(row)) for row in rows)

    schema, predicates = judge.schema(path), example.predicates
    rows, *answers = judge.answers(path, [None, *predicates])
    if _shows_all(judge, example) and texts(row[-1] for row in rows) != texts(file.rows):
        yield f"{judge.name} reads {rows[:5]}"
    for predicate, answer in zip(predicates, answers, strict=True):
        if judge is PYORC and predicate.has_early_fraction:
            continue
        lost = set(texts(row for row in rows if predicate.matches(row, schema))) - set(texts(answer))
        if lost:
            yield f"{judge.name} does not find {sorted(lost)[:3]} with {predicate}"


@settings(max_examples=_EXAMPLES, phases=_PHASES)
@given(example=inserts(), hides=st.booleans(), cut=st.booleans())
def test_every_judge_finds_what_was_inserted(
    place: tuple[Store, Path], example: Example, hides: bool, cut: bool
) -> None:
    store, database = place
    (file,) = example.files
    columns = {column.name: column.kind for column in example.columns}
    name = f"t{next(_numbers)}"
    table = store.create_table(f"d.{name}", columns, properties=dict(file.options))
    rows = list(file.rows)
    arrow = to_arrow(example.row_type, [rows[-1], *rows] if cut else rows, hides=hides)
    try:
        table.append(arrow.slice(1) if cut else arrow)
    except NotLossless:
        if WRITERS["pyorc"] in writers_of(example.columns):
            raise
        return  # a map has a key twice, beside times that only pyorc writes
    (path,) = (database / name).glob("delta_*/bucket_00000")
    losses = [loss for judge in judges() for loss in _loses(judge, path, example)]
    assert not losses, losses  # also where pytest does not show them
