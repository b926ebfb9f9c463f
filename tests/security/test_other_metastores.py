"""Metastores whose tables lie in each other's directories: those of one configuration, and those that nobody told of each
other (PROTOCOL 11.13)."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import delete, update

from compactor.acid.names import CLAIM_PREFIX, parse_staging, staging_name
from compactor.answers.preview import preview
from compactor.base.errors import (
    AccessDenied,
    CompactorError,
    DatabaseUnavailable,
    Disagreement,
    Refused,
    StorageError,
)
from compactor.base.ids import TxnId
from compactor.cleaner.cleaner import clean
from compactor.doctor.checks import doctor
from compactor.initiator.candidate_scan import DISAGREEMENT
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import SDS, TABLE_PARAMS, TBLS
from compactor.requests.accept_database import agree
from compactor.requests.advance import advance, measure_gap
from compactor.requests.give_up_claims import foreign_claims, give_up
from compactor.requests.request import request_compaction
from compactor.requests.resolve import Ruling
from compactor.site import lost_workers
from compactor.site.deployment import open_deployment
from compactor.site.finding import Level
from compactor.site.other_metastores import OtherMetastore, OtherMetastores
from compactor.site.site import Site, claims_of
from compactor.tables import Store
from compactor.tables.sql.run_statements import check_text, run
from compactor.worker.ending import Result
from tests.support.accidents import every_role
from tests.support.backups import Backup, without_memory
from tests.support.kept_tables import KeptTables
from tests.support.lost_workers import begun, claimed
from tests.support.partitioned import add_partition, make_partitioned
from tests.support.passes import age, clean_all, compact, settle
from tests.support.sizes import sized
from tests.support.tables import entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import files_below

ROWS = 40
COLUMNS = [Column(name="a", type="int"), Column(name="b", type="string")]
EAGER = {
    "hive_compactor_delta_num_threshold": "1",
    "hive_compactor_abortedtxn_threshold": "0",
    "hive_txn_opentxn_timeout": "1ms",
    "compactor_forget_grace": "0s",
}


@pytest.fixture
def config(tmp_path: Path, empty_metastore: Path) -> Path:
    """A configuration of the metastores ``a`` and ``b``, each with its own database and warehouse."""
    text = ""
    for name in ("a", "b"):
        shutil.copyfile(empty_metastore, tmp_path / f"{name}.db")
        (tmp_path / name).mkdir()
        text += f'[metastore.{name}]\nurl = "sqlite:///{tmp_path}/{name}.db"\nwarehouse = "{tmp_path}/{name}"\n'
    (tmp_path / "compactor.toml").write_text(text)
    return tmp_path / "compactor.toml"


@pytest.fixture
def opened(config: Path) -> Iterator[Callable[[str], Site]]:
    """Opens a metastore of ``config`` by its name, with settings that make everything due."""
    with ExitStack() as stack:
        yield lambda name: with_settings(stack.enter_context(open_deployment(name, config_path=str(config))), **EAGER)


@pytest.fixture
def a(opened: Callable[[str], Site]) -> Site:
    return opened("a")


@pytest.fixture
def b(opened: Callable[[str], Site]) -> Site:
    return opened("b")


@pytest.fixture
def ours(a: Site, tmp_path: Path, kept_tables: KeptTables) -> Table:
    """A table of ``a`` with four committed deltas, which are due for a compaction."""
    return kept_tables.get(a, tmp_path / "a", make_due)


def make_due(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for start in range(0, ROWS, 10):
        insert(site, table, range(start, start + 10))
    return table


def make_at(site: Site, location: object, name: str = "u", *, acid: bool = True) -> Table:
    """Creates ``default.<name>`` at a location, and aborted writes with the numbers of somebody else's deltas."""
    if "default" not in site.metastore.catalog.databases():
        site.metastore.embedded_catalog.create_database("default", str(location))
    made = NewTable("default", name, str(location), COLUMNS, parameters={"transactional": "true"} if acid else {})
    table = site.metastore.embedded_catalog.create_table(made)
    for txn in site.metastore.transactions.open("mallory", "h", count=4):
        write_id = site.metastore.write_ids.allocate(txn, table.database, table.name)
        site.metastore.write_ids.add_component(txn, entity_of(table), "i", write_id)
        site.metastore.transactions.abort(txn, "on purpose")
    return table


def alone(site: Site) -> Site:
    """Returns the site as it is where nobody told of the other metastore."""
    return replace(site, others=OtherMetastores())


def claims_in(place: object) -> list[str]:
    return sorted(path.name for path in Path(str(place)).rglob(f"{CLAIM_PREFIX}*"))


@pytest.mark.parametrize("below", ["", "/..", "/x"], ids=["there", "above", "below"])
@pytest.mark.parametrize("acid", [True, False], ids=["transactional", "plain"])
def test_tables_of_another_metastore_of_the_configuration(
    a: Site, b: Site, ours: Table, below: str, acid: bool
) -> None:
    """PROTOCOL 11.13: 40 rows became 0, and the doctors of both said that all was well."""
    make_at(b, f"{ours.location}{below}", acid=acid)
    before = files_below(Path(ours.location))
    every_role(b)
    every_role(a)
    assert files_below(Path(ours.location)) == before
    assert len(rows_of(a, ours)) == ROWS
    with pytest.raises(Refused, match=r"default\.u of metastore b lies"):
        request_compaction(a, table="default.t")
    with pytest.raises(Refused, match=r"default\.u of metastore b lies"):
        preview(a, "default.t")
    (finding,) = [one for one in doctor(a) if one.subject == "overlapping tables"]
    assert (finding.level, "default.u of metastore b" in finding.found) == (Level.FAIL, True)


_SPELLINGS = ["file:{top}/a/t", "file://{top}/a/t/", "file://localhost{top}/a/t", "/{top}/a//t/.", "{top}/link"]


@pytest.mark.parametrize(
    "spelling", sized(short=["{top}/link/t"], whole=[*_SPELLINGS, "{top}/link/t", "{top}/link/t/x"])
)
def test_another_spelling_is_the_same_directory(a: Site, b: Site, ours: Table, tmp_path: Path, spelling: str) -> None:
    """Both by their locations and, where nobody told of the other metastore, by the claim."""
    (tmp_path / "link").symlink_to(tmp_path / "a")
    make_at(b, spelling.format(top=tmp_path))
    before = files_below(Path(ours.location))
    every_role(b)
    every_role(a)
    assert files_below(Path(ours.location)) == before
    compact(alone(a))
    before = files_below(Path(ours.location))
    every_role(alone(b))
    compact(alone(b), table="default.u")
    assert before.items() <= files_below(Path(ours.location)).items()
    assert len(rows_of(a, ours)) == ROWS


@pytest.mark.parametrize("is_told", [True, False], ids=["by configuration", "by claims"])
def test_a_lost_worker_leaves_nothing_to_hide_in_anothers_directory(
    a: Site, b: Site, ours: Table, tmp_path: Path, is_told: bool
) -> None:
    """Its table was moved there while it worked, and its transaction has the number of the other metastore's compaction."""
    compact(alone(a))
    (base,) = Path(ours.location).glob("base_*_v*")
    theirs = make_table(b, tmp_path / "b", "u")
    insert(b, theirs, [1])
    number = int(base.name.rpartition("_v")[2])
    while b.metastore.transactions.newest() < number - 1:
        b.metastore.transactions.open("w", "h")
    _, txn = begun(b, theirs)
    assert txn == number
    with b.metastore.database.write() as conn:
        conn.execute(update(SDS).where(theirs.location == SDS.c.LOCATION).values(LOCATION=ours.location))
    (Path(ours.location) / staging_name(txn)).mkdir()
    before = files_below(Path(ours.location))
    age(b)
    lost_workers.time_out(b if is_told else alone(b))
    assert lost_workers.repair(b if is_told else alone(b)) == ()
    assert files_below(Path(ours.location)) == before


@pytest.mark.parametrize("is_told", [True, False], ids=["by configuration", "by claims"])
def test_a_table_without_partitions_sweeps_nothing_of_another(
    a: Site, b: Site, ours: Table, tmp_path: Path, is_told: bool
) -> None:
    """An aborted write to unknown partitions has the number of somebody else's compaction, which is under way."""
    parted = make_partitioned(b, tmp_path / "b", "parts")
    with b.metastore.database.write() as conn:
        conn.execute(update(SDS).where(parted.location == SDS.c.LOCATION).values(LOCATION=f"{tmp_path}/a"))
    (txn,) = b.metastore.transactions.open("w", "h")
    write_id = b.metastore.write_ids.allocate(txn, parted.database, parted.name)
    b.metastore.write_ids.add_component(txn, entity_of(parted), "i", write_id)
    b.metastore.transactions.abort(txn, "on purpose")
    if not is_told:
        compact(alone(a))
    place = Path(ours.location) / "p=1"
    (place / staging_name(txn)).mkdir(parents=True)
    settle()
    clean_all(b if is_told else alone(b))
    assert (place / staging_name(txn)).exists()


@pytest.mark.parametrize("is_told", [True, False], ids=["by configuration", "by claims"])
def test_a_lost_worker_without_a_transaction_sweeps_nothing_of_another(
    a: Site, b: Site, ours: Table, tmp_path: Path, is_told: bool
) -> None:
    """Its repair looks for leftovers of all transactions, which have the numbers of somebody else's."""
    compact(alone(a))
    theirs = make_table(b, tmp_path / "b", "u")
    insert(b, theirs, [1])
    claimed(b, table=str(theirs))
    place = Path(ours.location) / "z"
    (staged := place / staging_name(TxnId(1))).mkdir(parents=True)
    with b.metastore.database.write() as conn:
        conn.execute(update(SDS).where(theirs.location == SDS.c.LOCATION).values(LOCATION=str(place)))
    age(b)
    assert lost_workers.repair(b if is_told else alone(b)) == ()
    assert staged.exists()


@pytest.mark.parametrize("is_told", [True, False], ids=["by configuration", "by claims"])
@pytest.mark.parametrize("place", ["t", ""], ids=["there", "around"])
def test_nothing_is_purged_around_another_metastores_table(
    a: Site, b: Site, ours: Table, tmp_path: Path, is_told: bool, place: str
) -> None:
    """PROTOCOL 11.13: neither with a table one of whose partitions lies there, nor with the partition."""
    if not is_told:
        compact(alone(a))
    site = b if is_told else alone(b)
    add_partition(b, make_partitioned(b, tmp_path / "b", "parts"), 1, tmp_path / "a" / place)
    before = files_below(Path(ours.location))
    with pytest.raises(CompactorError, match=r"default\.t' of metastore 'a'|default\.t of metastore a"):
        Store(site).drop_table("default.parts", purge=True)
    with pytest.raises(CompactorError, match=r"default\.t' of metastore 'a'|default\.t of metastore a"):
        list(run(site, check_text("ALTER TABLE default.parts DROP PARTITION (p=1) PURGE")))
    assert files_below(Path(ours.location)) == before


@pytest.mark.parametrize("place", ["", "/..", "/x/y"], ids=["there", "around", "inside"])
def test_a_new_table_or_partition_neither_sweeps_nor_writes_where_another_metastore_has_a_claim(
    a: Site, b: Site, ours: Table, tmp_path: Path, place: str
) -> None:
    """PROTOCOL 11.13: what others stage there has the number of a transaction that ended here."""
    compact(alone(a))
    site = alone(b)
    make_partitioned(b, tmp_path / "b", "parts")
    (txn,) = b.metastore.transactions.open("w", "h")
    b.metastore.transactions.commit(txn)
    (staged := Path(ours.location) / f".compactor_w{txn}_beef").mkdir()
    location = f"{ours.location}{place}"
    with pytest.raises(Disagreement, match="is claimed by"):
        Store(site).create_table("default.v", {"a": "int"}, location=location)
    with pytest.raises(Disagreement, match="is claimed by"):
        list(run(site, check_text(f"CREATE TABLE default.w LOCATION '{location}' AS SELECT * FROM default.parts")))
    if place != "/..":
        with pytest.raises(Disagreement, match="is claimed by"):
            list(run(site, check_text(f"ALTER TABLE default.parts ADD PARTITION (p=1) LOCATION '{location}'")))
    assert staged.exists()
    assert not (Path(ours.location) / "x").exists()


class Recording:
    """A storage that records the directories that are made in it."""

    def __init__(self, wrapped: object) -> None:
        self._wrapped = wrapped
        self.made: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name in ("make_private", "make_directories"):
            return lambda path, *args, **more: (
                self.made.append(path),
                getattr(self._wrapped, name)(path, *args, **more),
            )
        return getattr(self._wrapped, name)


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "existing"])
def test_nothing_is_staged_in_a_partition_that_another_metastore_claims(b: Site, tmp_path: Path, is_new: bool) -> None:
    """PROTOCOL 11.13: the claim is seen before the first file, not only before the commit."""
    table = make_partitioned(b, tmp_path / "b", "parts")
    place = Path(table.location) / "p=1"
    place.mkdir()
    rows = pa.table({"a": pa.array([7], pa.int32()), "b": ["seven"], "p": pa.array([1], pa.int32())})
    if not is_new:
        Store(alone(b)).load_table("default.parts").append(rows)
    (place / f"{CLAIM_PREFIX}{'f' * 32}_7").write_text("{}")
    recording = Recording(b.storage)
    stored = Store(replace(alone(b), storage=recording)).load_table("default.parts")  # type: ignore[arg-type]
    with pytest.raises(Disagreement, match="is claimed by"):
        stored.append(rows) if is_new else stored.delete("a = 7")
    assert [path for path in recording.made if path.startswith(str(place))] == []


def test_a_partition_of_another_metastore(a: Site, b: Site, ours: Table, tmp_path: Path) -> None:
    """PROTOCOL 11.13: wherever its table lies, and whether or not that is transactional."""
    parted = make_partitioned(b, tmp_path / "b", "parts")
    add_partition(b, parted, 1, Path(ours.location))
    before = files_below(Path(ours.location))
    every_role(b)
    every_role(a)
    assert files_below(Path(ours.location)) == before
    with pytest.raises(Refused, match=r"default\.parts/p=1 of metastore b lies there too"):
        request_compaction(a, table="default.t")


@pytest.mark.parametrize("spelling", ["{top}/link/t", "{top}/%61/t", "file:{top}//a/./t/"])
def test_a_partition_of_a_plain_table_over_another_spelling(
    a: Site, b: Site, ours: Table, tmp_path: Path, spelling: str
) -> None:
    """PROTOCOL 11.13: the text of its location has no part in common with ours."""
    (tmp_path / "link").symlink_to(tmp_path / "a")
    plain = make_partitioned(b, tmp_path / "b", "parts")
    with b.metastore.database.write() as conn:
        conn.execute(delete(TABLE_PARAMS))
    b.metastore.embedded_catalog.add_partition(plain, ["1"], spelling.format(top=tmp_path))
    with pytest.raises(Refused, match=r"default\.parts/p=1 of metastore b lies there too"):
        request_compaction(a, table="default.t")


def test_programs_neither_write_there_nor_create_or_purge_a_table(
    a: Site, b: Site, ours: Table, tmp_path: Path
) -> None:
    """PROTOCOL 11.13"""
    make_at(b, ours.location)
    rows = pa.table({"a": pa.array([7], pa.int32()), "b": ["seven"]})
    before = files_below(Path(ours.location))
    with pytest.raises(Refused, match=r"default\.t of metastore a"):
        Store(b).load_table("default.u").append(rows)
    with pytest.raises(Refused, match=r"default\.t of metastore a"):
        Store(b).create_table("default.v", rows.schema, location=f"{ours.location}/inside")
    with pytest.raises(Refused, match=r"default\.t of metastore a"):
        Store(b).drop_table("default.u", purge=True)
    assert files_below(Path(ours.location)) == before


def test_one_database_under_two_names_is_one_metastore(
    a: Site, ours: Table, config: Path, opened: Callable[[str], Site], tmp_path: Path
) -> None:
    """Its tables do not lie in their own way, however the URL is spelt."""
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    for number, url in enumerate((f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/link.db")):
        with config.open("a") as file:
            file.write(f'[metastore.again{number}]\nurl = "{url}"\n')
    assert compact(opened("a")).result is Result.COMPACTED


def test_another_user_of_a_database_may_have_another_metastore_there() -> None:
    """In most databases a user has a schema of its own, so the URL alone does not tell; the metastore is asked."""
    asked = OtherMetastore(name="b", locate=lambda: "postgresql://b:secret@127.0.0.1:1/shared")
    assert OtherMetastores([asked], url="postgresql://b:other@127.0.0.1:1/shared").locations() == []
    with pytest.raises(DatabaseUnavailable, match="metastore b"):
        OtherMetastores([asked], url="postgresql://a:secret@127.0.0.1:1/shared").locations()


def test_a_copy_of_a_metastores_database_is_another_metastore(
    a: Site, ours: Table, config: Path, opened: Callable[[str], Site], tmp_path: Path
) -> None:
    """PROTOCOL 11.13: it has the same tables at the same places, and the same token."""
    compact(a)
    insert(a, ours, range(100, 110))
    with (
        closing(sqlite3.connect(tmp_path / "a.db")) as source,
        closing(sqlite3.connect(tmp_path / "copy.db")) as target,
    ):
        source.backup(target)
    with config.open("a") as file:
        file.write(f'[metastore.copy]\nurl = "sqlite:///{tmp_path}/copy.db"\n')
    with pytest.raises(Refused, match=r"default\.t of metastore copy lies there too"):
        request_compaction(opened("a"), table="default.t")


def test_nothing_is_done_while_another_metastore_cannot_be_asked(
    ours: Table, config: Path, opened: Callable[[str], Site], tmp_path: Path
) -> None:
    """PROTOCOL 11.13: until then nobody knows that the directory is ours alone."""
    with config.open("a") as file:
        file.write('[metastore.far]\nurl = "postgresql://x:y@127.0.0.1:1/far"\n')
    site = opened("a")
    before = files_below(Path(ours.location))
    with pytest.raises(DatabaseUnavailable, match="metastore far, which the configuration names, too, cannot be asked"):
        compact(site)
    assert files_below(Path(ours.location)) == before


def test_a_name_without_a_metastore_yet_holds_up_nobody(
    ours: Table, config: Path, opened: Callable[[str], Site], tmp_path: Path
) -> None:
    with config.open("a") as file:
        file.write(f'[metastore.later]\nurl = "sqlite:///{tmp_path}/later.db"\n[metastore.nowhere]\nmode = "observe"\n')
    assert compact(opened("a")).result is Result.COMPACTED


def test_a_first_compaction_leaves_a_claim_that_no_reader_sees(a: Site, ours: Table) -> None:
    """PROTOCOL 11.13"""
    assert compact(alone(a)).result is Result.COMPACTED
    (claim,) = claims_in(ours.location)
    assert claim.endswith(f"_{ours.id}")
    clean_all(alone(a))
    insert(alone(a), ours, range(100, 110))
    assert compact(alone(a)).result is Result.COMPACTED
    assert claims_in(ours.location) == [claim]
    assert len(rows_of(a, ours)) == ROWS + 10
    assert Store(alone(a)).load_table("default.t").scan().to_arrow().num_rows == ROWS + 10


def test_a_metastore_that_nobody_told_of_finds_the_claim(a: Site, b: Site, ours: Table) -> None:
    """PROTOCOL 11.13: in each role, until a person gives the claim up."""
    a, b = alone(a), alone(b)
    compact(a)
    clean_all(a)
    insert(a, ours, range(100, 110))
    table = make_at(b, ours.location)
    before = files_below(Path(ours.location))
    (considered,) = initiate(b).considered
    assert considered.outcome == DISAGREEMENT
    assert "is claimed by table 'default.t' of metastore 'a'" in considered.because
    every_role(b)
    for kind in ("minor", "major"):
        outcome = compact(b, kind, table="default.u")
        assert (outcome.result, "give its claim up" in outcome.message) == (Result.REFUSED, True)
    with pytest.raises(Disagreement, match="is claimed by"):
        preview(b, "default.u")
    with pytest.raises(Disagreement, match="is claimed by"):
        Store(b).load_table("default.u").append(pa.table({"a": pa.array([7], pa.int32()), "b": ["seven"]}))
    with pytest.raises(Disagreement, match="is claimed by"):
        Store(b).drop_table("default.u", purge=True)
    assert files_below(Path(ours.location)) == before
    assert len(rows_of(a, ours)) == ROWS + 10
    (found,) = foreign_claims(b, "default.u")
    give_up(b, [found])
    assert foreign_claims(b, "default.u") == []
    assert table.id is not None


def test_aborted_writes_of_another_metastore_remove_nothing(a: Site, b: Site, ours: Table) -> None:
    """PROTOCOL 11.13: they have the numbers of committed deltas; the cleaner needs no request for them."""
    a, b = alone(a), alone(b)
    compact(a)
    make_at(b, ours.location)
    before = files_below(Path(ours.location))
    settle()
    (failed,) = clean(b).failed
    assert "is claimed by" in failed.because
    assert files_below(Path(ours.location)) == before


@pytest.mark.parametrize("place", ["..", "x/y"], ids=["inside", "around"])
def test_claims_around_and_inside(a: Site, b: Site, ours: Table, tmp_path: Path, place: str) -> None:
    """PROTOCOL 11.13"""
    a, b = alone(a), alone(b)
    compact(a)
    inside = Path(ours.location) / "x" / "y"
    inside.mkdir(parents=True)
    outer = Path(ours.location).parent if place == ".." else inside
    make_at(b, outer)
    before = files_below(Path(ours.location))
    every_role(b)
    outcome = compact(b, table="default.u")
    assert (outcome.result, "is claimed by" in outcome.message) == (Result.REFUSED, True)
    assert files_below(Path(ours.location)) == before


@pytest.fixture
def compacted_since(a: Site, ours: Table, tmp_path: Path) -> Backup:
    """A copy of the database of ``a`` from before its first pass, although ``ours`` was compacted since and has a claim."""
    backup = Backup(tmp_path / "a.db")
    backup.take()
    assert compact(alone(a)).result is Result.COMPACTED
    return backup


def test_a_metastore_that_was_put_back_to_before_its_first_pass_knows_its_claims(
    ours: Table, compacted_since: Backup, opened: Callable[[str], Site]
) -> None:
    """PROTOCOL 11.13: a process that never saw the token finds it in the memory, once a person has ruled."""
    claims = claims_in(ours.location)
    compacted_since.restore()
    site = alone(opened("a"))
    assert site.metastore.claim_token.read() is None
    with pytest.raises(Disagreement, match="older than what"):
        compact(site)
    rulings = {(str(ours), one.path): Ruling.KEEP for one in measure_gap(site).directories}
    assert rulings
    advance(site, rulings)
    agree(site, "ann")
    site = alone(opened("a"))
    insert(site, ours, range(100, 110))
    assert compact(site).result is Result.COMPACTED
    assert (claims_in(ours.location), len(rows_of(site, ours))) == (claims, ROWS + 10)


def test_another_metastore_in_the_place_of_ours_does_not_get_our_claims(
    b: Site, ours: Table, compacted_since: Backup, opened: Callable[[str], Site], tmp_path: Path
) -> None:
    """PROTOCOL 11.13: although its table has the same id and name, and a person rules on its database."""
    table = make_at(b, ours.location, "t")
    with b.metastore.database.write() as conn:
        conn.execute(update(TBLS).values(CREATE_TIME=TBLS.c.CREATE_TIME - 60))
    with closing(sqlite3.connect(tmp_path / "b.db")) as source, closing(sqlite3.connect(tmp_path / "a.db")) as target:
        source.backup(target)
    site = alone(opened("a"))
    advance(site, {(str(table), one.path): Ruling.KEEP for one in measure_gap(site).directories})
    agree(site, "ann")
    before = files_below(Path(ours.location))
    refused = compact(site)
    assert (refused.result, "is claimed by" in refused.message) == (Result.REFUSED, True)
    assert table.id == ours.id
    assert files_below(Path(ours.location)) == before


@pytest.mark.parametrize("request_it", [lambda site: request_compaction(site, table="default.t"), initiate])
def test_a_request_makes_the_token_of_claims(a: Site, ours: Table, request_it: Callable[[Site], object]) -> None:
    """PROTOCOL 11.13: a backup from before the first compaction has it, also where nothing is remembered."""
    site = with_settings(without_memory(alone(a)), **EAGER, compactor_mode="request")
    assert site.metastore.claim_token.read() is None
    request_it(site)
    assert site.metastore.claim_token.read() is not None


def test_a_metastore_is_compared_with_others_before_it_has_a_token(
    ours: Table, config: Path, opened: Callable[[str], Site], tmp_path: Path
) -> None:
    """PROTOCOL 11.13: none is made for that, since the database may have been put back to before it had its own."""
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    with config.open("a") as file:
        file.write(f'[metastore.again]\nurl = "sqlite:///{tmp_path}/link.db"\n')
    site = opened("a")
    assert [name for name, _ in site.others.locations()] == ["b"]
    assert site.metastore.claim_token.read() is None


class Faulty:
    """A storage whose listing of names in ``directory`` fails as often as ``errors`` has errors."""

    def __init__(self, wrapped: object, directory: str, errors: list[Exception]) -> None:
        self._wrapped, self._directory, self._errors = wrapped, directory, errors

    def __getattr__(self, name: str) -> object:
        return getattr(self._wrapped, name)

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        if path == self._directory and self._errors:
            raise self._errors.pop()
        return self._wrapped.children(path, prefix)  # type: ignore[attr-defined, no-any-return]


def test_a_directory_around_that_cannot_be_listed_for_a_moment_is_not_taken_for_unclaimed(a: Site, ours: Table) -> None:
    """PROTOCOL 11.13: nothing is done until it answers, and the failure is not remembered as an answer."""
    around = str(Path(ours.location).parent)
    (Path(around) / f"{CLAIM_PREFIX}{'f' * 32}_7").write_text("{}")
    site = replace(alone(a), storage=Faulty(a.storage, around, [StorageError("timed out")]))  # type: ignore[arg-type]
    claims = claims_of(site)
    with pytest.raises(StorageError, match="timed out"):
        claims.must_be_free_above(ours, ours.location)
    with pytest.raises(Disagreement, match="is claimed by"):
        claims.must_be_free_above(ours, ours.location)


def test_a_directory_around_that_may_not_be_listed_keeps_nobody_from_compacting(a: Site, ours: Table) -> None:
    """PROTOCOL 11.13: databases often lie in directories that only their administrator lists."""
    denied: list[Exception] = [AccessDenied("cannot list it: Permission denied") for _ in range(9)]
    site = replace(alone(a), storage=Faulty(a.storage, str(Path(ours.location).parent), denied))  # type: ignore[arg-type]
    assert compact(site).result is Result.COMPACTED
    assert len(denied) < 9


def test_nothing_is_written_or_purged_inside_a_claimed_directory(a: Site, b: Site, ours: Table, tmp_path: Path) -> None:
    """PROTOCOL 11.13: nor by programs and commands, which look around as the roles do."""
    a, b = alone(a), alone(b)
    compact(a)
    inside = Path(ours.location) / "x" / "y"
    inside.mkdir(parents=True)
    (inside / "precious").touch()
    make_at(b, inside)
    with pytest.raises(Disagreement, match="is claimed by"):
        Store(b).load_table("default.u").append(pa.table({"a": pa.array([7], pa.int32()), "b": ["seven"]}))
    with pytest.raises(Disagreement, match="is claimed by"):
        Store(b).drop_table("default.u", purge=True)
    assert (inside / "precious").exists()
    elsewhere = Path(ours.location) / "z"
    elsewhere.mkdir()
    add_partition(b, make_partitioned(b, tmp_path / "b", "parts"), 1, elsewhere)
    with pytest.raises(Disagreement, match="is claimed by"):
        list(run(b, check_text("ALTER TABLE default.parts DROP PARTITION (p=1) PURGE")))
    assert elsewhere.exists()


def test_a_copy_of_a_directory_has_somebody_elses_claim(a: Site, ours: Table, tmp_path: Path) -> None:
    """PROTOCOL 11.13: the message says what to do, and that helps."""
    site = alone(a)
    compact(site)
    clean_all(site)
    shutil.copytree(ours.location, tmp_path / "a" / "copy")
    copy = make_table_of_copy(site, tmp_path / "a" / "copy")
    refused = compact(site, table="default.copy")
    assert (refused.result, "table default.t (id" in refused.message) == (Result.REFUSED, True)
    (found,) = foreign_claims(site, "default.copy")
    assert f"--give-up {found.name} --yes" in refused.message
    give_up(site, [found])
    insert(site, copy, [1])
    assert compact(site, table="default.copy").result is Result.COMPACTED
    assert claims_in(copy.location)[0].endswith(f"_{copy.id}")
    assert claims_in(ours.location)[0].endswith(f"_{ours.id}")


def make_table_of_copy(site: Site, location: Path) -> Table:
    """Creates a table over copied files, whose write IDs it gives, too."""
    made = NewTable("default", "copy", str(location), COLUMNS, parameters={"transactional": "true"})
    table = site.metastore.embedded_catalog.create_table(made)
    for txn in site.metastore.transactions.open("ann", "h", count=4):
        site.metastore.write_ids.allocate(txn, table.database, table.name)
        site.metastore.transactions.commit(txn)
    return table


def test_the_claim_of_a_dropped_table_is_nobodys(a: Site, ours: Table) -> None:
    site = alone(a)
    compact(site)
    clean_all(site)
    site.metastore.embedded_catalog.drop_table(ours)
    again = make_table_of_copy(site, Path(ours.location))
    insert(site, again, [1])
    assert compact(site, table="default.copy").result is Result.COMPACTED
    assert [name.endswith(f"_{again.id}") for name in claims_in(again.location)] == [True]


def test_a_renamed_table_and_one_that_moved_keep_their_claim(a: Site, ours: Table, tmp_path: Path) -> None:
    site = alone(a)
    compact(site)
    clean_all(site)
    moved = tmp_path / "a" / "moved"
    shutil.move(ours.location, moved)
    with site.metastore.database.write() as conn:
        conn.execute(update(SDS).where(ours.location == SDS.c.LOCATION).values(LOCATION=str(moved)))
        conn.exec_driver_sql("UPDATE TBLS SET TBL_NAME = 'r' WHERE TBL_NAME = 't'")
        conn.exec_driver_sql("UPDATE NEXT_WRITE_ID SET NWI_TABLE = 'r' WHERE NWI_TABLE = 't'")
        conn.exec_driver_sql("UPDATE TXN_TO_WRITE_ID SET T2W_TABLE = 'r' WHERE T2W_TABLE = 't'")
    insert(site, site.metastore.catalog.table("default", "r"), [1])
    assert compact(site, table="default.r").result is Result.COMPACTED


@pytest.mark.parametrize("where", ["", "..", "x"], ids=["there", "around", "inside"])
def test_of_two_that_claim_at_once_neither_goes_on(
    a: Site, ours: Table, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 11.13: each looks again after it has written its own, which it takes back; what the other one has staged
    under a transaction of the same number stays."""
    monkeypatch.setattr("compactor.site.directory_claims.FRESH_S", 0.0)
    site, write = alone(a), type(a.storage).write
    foreign = Path(ours.location) / where / f"{CLAIM_PREFIX}{'f' * 32}_7"

    class Racing:
        def __init__(self, wrapped: object) -> None:
            self._wrapped = wrapped

        def __getattr__(self, name: str) -> object:
            return getattr(self._wrapped, name)

        def write(self, path: str, content: bytes) -> None:
            write(self._wrapped, path, content)  # type: ignore[arg-type]
            if CLAIM_PREFIX in path:
                (Path(path).parent / staging_name(a.metastore.transactions.newest(), "beef")).mkdir()
                foreign.parent.mkdir(exist_ok=True)
                foreign.write_text("{}")

    outcome = compact(replace(site, storage=Racing(site.storage)))  # type: ignore[arg-type]
    assert (outcome.result, "token ffffffff" in outcome.message) == (Result.REFUSED, True)
    assert (foreign.exists(), claims_in(ours.location)) == (True, [] if where == ".." else [foreign.name])
    staged = [path.name for path in Path(ours.location).iterdir() if parse_staging(path.name)]
    assert [name.endswith("_beef") for name in staged] == [True]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"table": "a\\nb\\u001b[1m", "metastore": "m"}', b"x" * 9999])
def test_whatever_a_claim_says_is_only_shown(a: Site, ours: Table, content: bytes) -> None:
    """Whoever may write in the directory wrote it."""
    (Path(ours.location) / f"{CLAIM_PREFIX}{'f' * 32}_7").write_bytes(content)
    outcome = compact(alone(a))
    assert outcome.result is Result.REFUSED
    assert "\n" not in outcome.message
    assert "\x1b" not in outcome.message
