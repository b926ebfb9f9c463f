from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.base.errors import NotLossless
from compactor.orc.io.source import LocalSource
from compactor.rewrite.full_acid.concatenate import EncodedFile, concatenate, encode_stripes
from compactor.rewrite.full_acid.stripe_choice import Action, choose_actions
from compactor.rows.acid_file import open_files
from compactor.rows.delete_files import DeleteEvents
from tests.support.acid_files import TYPES, like
from tests.support.split_units import large_unit
from tests.support.targets import target


def test_copied_and_encoded_stripes_keep_their_order(tmp_path: Path) -> None:
    unit = large_unit(tmp_path)
    path = str(tmp_path / "out")
    with open_files(unit.location, unit.inserts[1:4], 0) as files:
        first, second, third = choose_actions(files, DeleteEvents.from_blocks([]), unit.write_ids, look_always=False)
        (part,) = encode_stripes([second], lambda: str(tmp_path / "part"), like=like(), types=TYPES, full=True)
        assert isinstance(part, str)
        joined = concatenate(
            [first, EncodedFile(opener=partial(LocalSource, part)), third],
            target(tmp_path),
            like=files[0].tail,
            types=TYPES,
            full=True,
        )
    assert po.ORCFile(path).read()["originalTransaction"].to_pylist() == [1] * 51 + [2] * 52 + [3] * 53
    assert [key.write_id for key in joined.last_keys] == [1, 2, 3]
    assert ([c.file.path for c in joined.copied], joined.written.rows) == ([first.file.path, third.file.path], 156)


def test_small_stripes_that_cannot_be_encoded_are_copied(tmp_path: Path) -> None:
    """PROTOCOL 2: re-encoding to spare readers tiny stripes is no reason to refuse a table."""
    unit = large_unit(tmp_path)
    paths = iter(str(tmp_path / f"part{n}") for n in range(9))
    with open_files(unit.location, unit.inserts[1:3], 0) as files:
        small, must = choose_actions(files, DeleteEvents.from_blocks([]), unit.write_ids, look_always=False)
        small = small._replace(action=Action.ENCODE, is_only_small=True, keep=pa.array([True]))  # of another stripe
        made = list(encode_stripes([small, must], partial(next, paths), like=like(), types=TYPES))
        assert made == [small, str(tmp_path / "part1")]
        with pytest.raises(NotLossless, match="a mask of 1 rows"):
            list(encode_stripes([small._replace(is_only_small=False)], partial(next, paths), like=like(), types=TYPES))
