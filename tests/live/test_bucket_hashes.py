"""Where a live Hive and our programs put rows of a bucketed table, by both versions of its hash; Trino joins them."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest

from compactor.tables import Store
from compactor.tables.writing.bucket_hashes import bucket_numbers
from tests.support.beside import Beside
from tests.support.bucket_hashes import HASHES, arrow_array
from tests.support.trino import Trino

_BUCKETS = 7
_OURS = 1000  #: added to the numbers of our rows
_REFUSED = "1969-12-31 23:59:59.5"  #: readers show such fractions a second later


def _texts(version: int) -> dict[tuple[str, bool], list[str]]:
    """Returns values by their types, days of the Julian calendar apart: Trino takes those for other days, and so for days of
    other buckets."""
    texts: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for hashed in HASHES:
        if (version == 1 or hashed.second is not None) and hashed.text not in {"NaN", "Infinity"}:
            texts[hashed.type, hashed.type == "date" and hashed.text < "1582-10-15"].append(hashed.text)
    assert len(texts) > 12
    return texts


@pytest.mark.parametrize("version", [1, 2])
def test_rows_lie_in_the_buckets_that_we_compute(beside: Beside, trino: Trino, version: int) -> None:
    """PROTOCOL 14.6: a wrong bucket is silent loss, since readers leave out files by it."""
    for at, ((type_, is_julian), values) in enumerate(_texts(version).items()):
        name = f"hashed_{version}_{at}"
        beside.hive.sql(
            f"create table {name} (c {type_}, n int) clustered by (c) into {_BUCKETS} buckets stored as orc "
            f"tblproperties ('transactional'='true', 'bucketing_version'='{version}')"
        )
        rows = " union all ".join(f"select cast('{text}' as {type_}) c, {n} n" for n, text in enumerate(values))
        beside.hive.sql(f"insert into {name} select * from ({rows}) s")
        # one by one, since Arrow has no type for all timestamps with all digits
        arrays = [arrow_array(type_, [text]) for text in values]
        wanted = [int(bucket_numbers([one], [type_], _BUCKETS, version=version)[0]) for one in arrays]
        with Store(beside.site).transaction() as txn:
            for n, one in enumerate(arrays):
                if values[n] == _REFUSED:
                    continue
                txn.load_table(f"default.{name}").append(pa.table({"c": one, "n": [n + _OURS]}))
        shown = [line.split("\t") for line in beside.hive.sql(f"select n, INPUT__FILE__NAME from {name}")]
        found = {int(n): int(file.rpartition("bucket_")[2][:5]) for n, file in shown}
        ours = {n + _OURS: bucket for n, bucket in enumerate(wanted) if values[n] != _REFUSED}
        assert found == dict(enumerate(wanted)) | ours, type_
        if not is_julian:
            _trino_joins(trino, name, len(wanted) + len(ours))


def _trino_joins(trino: Trino, name: str, rows: int) -> None:
    """Trino, which checks the buckets of what it reads, joins bucket by bucket as it does without regard to them."""
    join = f"select a.n, b.n from {name} a join {name} b on a.c = b.c order by 1, 2"
    without = "hive.bucket_execution_enabled=false"
    wanted = trino.sql(join, without)
    assert trino.sql(join) == wanted, name
    assert len(wanted) >= 2 * rows - 2, name  # each row meets itself and the other side's
