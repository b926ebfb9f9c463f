from __future__ import annotations

from compactor.acid.directory import acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import TxnId, WriteId
from compactor.rows.inputs import Input, inputs_of_directory, inputs_of_originals


def test_each_file_comes_with_its_number_and_the_parts_of_its_row_ids() -> None:
    paths = [
        "000000_0",
        "000001_0_copy_1",
        "delta_0000004_0000004_0002/000003_0",
        "delta_0000005_0000005_0000/bucket_00007",
    ]
    listing = Listing(files=tuple(FileStatus(path=path, length=9) for path in paths))
    write_ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(9))
    directory = acid_directory(listing, write_ids, ValidTxnList(high_watermark=TxnId(9)))
    assert list(inputs_of_originals(directory)) == [
        (0, Input(path=paths[0], length=9, raw=True, group="originals")),
        (1, Input(path=paths[1], length=9, raw=True, group="originals")),
    ]
    found = [item for delta in directory.deltas for item in inputs_of_directory(delta)]
    load, insert = (path.partition("/")[0] for path in paths[2:])
    assert found == [
        (3, Input(path=paths[2], length=9, raw=True, write_id=WriteId(4), statement_id=2, group=load)),
        (7, Input(path=paths[3], length=9, write_id=WriteId(5), statement_id=0, group=insert)),
    ]
