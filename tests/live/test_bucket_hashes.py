"""Where a live Hive puts rows of a bucketed table, by both versions of its hash."""

from __future__ import annotations

from collections import defaultdict

import pytest

from compactor.tables.writing.bucket_hashes import bucket_numbers
from tests.support.beside import Beside
from tests.support.bucket_hashes import HASHES, arrow_array

_BUCKETS = 7


@pytest.mark.parametrize("version", [1, 2])
def test_rows_lie_in_the_buckets_that_we_compute(beside: Beside, version: int) -> None:
    """PROTOCOL 14.6: a wrong bucket is silent loss, since readers leave out files by it."""
    texts: dict[str, list[str]] = defaultdict(list)
    for hashed in HASHES:
        if (version == 1 or hashed.second is not None) and hashed.text not in {"NaN", "Infinity"}:
            texts[hashed.type].append(hashed.text)
    assert len(texts) > 12
    for at, (type_, values) in enumerate(texts.items()):
        name = f"hashed_{version}_{at}"
        beside.hive.sql(
            f"create table {name} (c {type_}, n int) clustered by (c) into {_BUCKETS} buckets stored as orc "
            f"tblproperties ('transactional'='true', 'bucketing_version'='{version}')"
        )
        rows = " union all ".join(f"select cast('{text}' as {type_}) c, {n} n" for n, text in enumerate(values))
        beside.hive.sql(f"insert into {name} select * from ({rows}) s")
        shown = [line.split("\t") for line in beside.hive.sql(f"select n, INPUT__FILE__NAME from {name}")]
        found = {int(n): int(file.rpartition("bucket_")[2][:5]) for n, file in shown}
        wanted = bucket_numbers([arrow_array(type_, values)], [type_], _BUCKETS, version=version).tolist()
        assert found == dict(enumerate(wanted)), type_
