"""Every module has unit tests where one looks for them: ``compactor/a/b.py`` in ``tests/unit/a/test_b.py``."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE, DEMO, UNIT = ROOT / "compactor", ROOT / "demo", ROOT / "tests" / "unit"

#: Module -> where it is tested instead: what is the same over every database is tested over every database at once.
ELSEWHERE: dict[str, str] = {
    "airflow/page/request_bounds.py": "security/page/test_fuzz.py",
    "site/spark_secrets.py": "security/test_secrets.py",
    "orc/codecs/wall_clock.py": "integration/rewrite/test_time_zones.py",
    "cli/submit.py": "cluster/yarn/test_launchers.py",
    "database/servers.py": "contract/test_sessions.py",
    "database/server_traits.py": "contract/test_trouble.py",
    "doctor/server_checks.py": "contract/test_doctor.py",
    "metastore/schema/free_text.py": "contract/test_free_text.py",
    "database/text_hash.py": "contract/test_table_sums.py",
    "metastore/table_sums.py": "contract/test_table_sums.py",
    "database/sqlite.py": "unit/database/test_engine.py",
    "metastore/claim_token.py": "security/test_other_metastores.py",
    "metastore/high_water_marks.py": "contract/test_marks.py",
    "metastore/schema/dialect.py": "contract/test_schema_of_hive.py",
    "metastore/schema/compile.py": "contract/test_names.py",
    "metastore/schema/hive2.py": "contract/test_hive2.py",
    "metastore/schema/hive3.py": "contract/test_hive3.py",
    "metastore/transactions/commit_rows.py": "contract/test_transactions.py",
    "metastore/transactions/stream_batches.py": "contract/test_stream_batches.py",
    "metastore/transactions/shown_transactions.py": "contract/test_transactions.py",
    "metastore/locks/lock_rows.py": "contract/test_locks.py",
    "metastore/queue/hive2_queue.py": "contract/test_hive2.py",
    "metastore/queue/cleaning_rows.py": "contract/test_queue.py",
    "metastore/queue/commit_section.py": "contract/test_fences.py",
    "metastore/queue/queue_table.py": "contract/test_fences.py",
    "metastore/notifications/catalog_rows.py": "contract/test_written_events.py",
    "metastore/notifications/notification_tables.py": "contract/test_notifications.py",
    "metastore/notifications/events.py": "contract/test_notifications.py",
    "metastore/notifications/transaction_events.py": "contract/test_written_events.py",
    "metastore/notifications/notification_log.py": "contract/test_notifications.py",
    "metastore/notifications/write_events.py": "contract/test_written_events.py",
    "acid/txn_states.py": "contract/test_transactions.py",
    "metastore/statistics/refresh.py": "contract/test_statistics.py",
    "metastore/statistics/subjects.py": "contract/test_statistics.py",
    "metastore/statistics/commit_statistics.py": "contract/test_statistics.py",
    "metastore/statistics/concurrent_writers.py": "contract/test_statistics.py",
    "metastore/catalog/new_partitions.py": "contract/test_programs.py",
    "metastore/locks/zookeeper.py": "integration/locks/test_zookeeper.py",
    "cleaner/cleaner_pass.py": "unit/cleaner/test_cleaner.py",
    "cleaner/cleaning_phases.py": "unit/cleaner/test_cleaning_group.py",
    "spark_tables/acid_table.py": "integration/tables_for_spark/test_changing.py",
    "spark_tables/program_session.py": "integration/tables_for_spark/test_changing.py",
    "spark_tables/living_frames.py": "integration/tables_for_spark/test_statements.py",
    "spark_tables/changed_frames.py": "integration/tables_for_spark/test_changing.py",
    "spark_tables/data_source.py": "integration/tables_for_spark/test_reading.py",
    "spark_tables/keeper/__main__.py": "integration/tables_for_spark/test_keeper.py",
    "spark_tables/keeper_requests.py": "integration/tables_for_spark/test_keeper.py",
    "spark_tables/session.py": "integration/tables_for_spark/test_reading.py",
    "spark_tables/sql_run.py": "integration/tables_for_spark/test_sql.py",
    "spark_tables/writer.py": "integration/tables_for_spark/test_writing.py",
    "worker/ending.py": "unit/worker/test_worker.py",
    "worker/compaction_group.py": "unit/worker/test_claimed_entries.py",
    "worker/publication.py": "integration/roles/test_protocol_naming.py",
    "worker/staging.py": "unit/worker/test_worker.py",
    "orc/codecs/json_values.py": "unit/cli/test_dump_files.py",
    "tables/sql/sql_session.py": "unit/cli/test_sql.py",
    "tables/sql/named_partitions.py": "unit/tables/sql/test_run_changes.py",
    "statements/parsed_actions.py": "unit/statements/test_golden.py",
    "statements/parse_alterations.py": "unit/statements/test_golden.py",
    "statements/parse_changes.py": "unit/statements/test_golden.py",
    "statements/statement_list.py": "unit/statements/test_golden.py",
    "statements/parse_definitions.py": "unit/statements/test_golden.py",
    "statements/parse_utilities.py": "unit/statements/test_golden.py",
    "storage/hdfs_kerberos.py": "cluster/kerberos/test_webhdfs.py",
    "storage/abfs.py": "storage/test_contract.py",
    "storage/gcs.py": "storage/test_contract.py",
    "storage/s3.py": "storage/test_contract.py",
    "cleaner/removing.py": "unit/cleaner/test_cleaner.py",
    "tables/transactions/held_locks.py": "unit/tables/transactions/test_transaction.py",
    "tables/transactions/transaction_block.py": "unit/tables/transactions/test_transaction.py",
    "tables/transactions/watch.py": "unit/tables/reading/test_scan.py",
    "tables/reading/scan_planning.py": "unit/tables/reading/test_scan.py",
    "tables/store.py": "unit/tables/reading/test_scan.py",
    "site/claim_turns.py": "unit/batches/test_assembly.py",
    "site/other_metastores.py": "security/test_other_metastores.py",
    "requests/give_up_claims.py": "unit/cli/test_doubtful_directories.py",
    "site/old_site.py": "unit/hive2/test_last_majors.py",
    "site/hidden_outputs.py": "unit/site/test_files_and_metastore.py",
    "site/view.py": "unit/site/test_site.py",
    "worker/waiting_entries.py": "unit/worker/test_worker.py",
    "worker/plan_summary.py": "unit/worker/test_planning.py",
    "mirror/column_proof.py": "integration/mirror/test_column_proof.py",
    "mirror/iceberg_commit.py": "integration/mirror/test_rules.py",
    "mirror/mirror_pass.py": "integration/mirror/test_passes.py",
    "mirror/mirrored_tables.py": "integration/mirror/test_rules.py",
    "mirror/offset.py": "integration/mirror/test_passes.py",
    "mirror/retention.py": "integration/mirror/test_retention.py",
    "site/removal_records.py": "unit/airflow/page/test_figures_of_a_day.py",
    "state/mirrors.py": "integration/mirror/test_passes.py",
    "state/removals.py": "contract/test_state.py",
    "tables/reading/versions.py": "unit/tables/reading/test_change_feed.py",
}

#: Files of tests about more than one module. Any other file whose module is gone is stale, or has to move with it.
WIDER: frozenset[str] = frozenset(
    [
        "acid/test_fixture_states.py",
        "acid/test_invisible.py",
        "airflow/page/test_figures_of_a_day.py",
        "airflow/page/test_format.py",
        "metastore/test_observe.py",
        "orc/codecs/test_library_writer.py",
        "orc/codecs/test_plain_stripe.py",
        "orc/test_round_trip.py",
        "spark_tables/test_package.py",
        "statements/test_golden.py",
        "tables/sql/test_documented.py",
        "tables/sql/test_trace.py",
        "tables/test_documented.py",
        "tables/writing/test_rows_of_scans.py",
        "test_deployed.py",
        "test_documents.py",
        "test_tests_of_modules.py",
        "test_nothing_is_unpickled.py",
        "test_scratch_names.py",
        "test_seed.py",
        "tools/test_debian_packages.py",
        "tools/test_machine_java.py",
    ]
)


def modules() -> list[str]:
    files = [
        *(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")),
        *(path.relative_to(ROOT) for path in DEMO.rglob("*.py")),
    ]
    return sorted(path.as_posix() for path in files if path.name != "__init__.py" and "migrations" not in path.parts)


def mirror(module: str) -> Path:
    path = UNIT / module
    return path.with_name(f"test_{path.name}")


def test_every_module_has_its_tests() -> None:
    """A new module brings its test file, or a line in ``ELSEWHERE`` that says where it is tested."""
    files = {module: mirror(module) for module in modules()}
    missing = {module: file.relative_to(ROOT) for module, file in files.items() if not file.is_file()}
    assert {module: file for module, file in missing.items() if module not in ELSEWHERE} == {}
    files |= {module: ROOT / "tests" / ELSEWHERE[module] for module in missing}
    assert [module for module, file in files.items() if "\ndef test_" not in file.read_text("utf-8")] == []


def test_no_line_is_about_a_module_that_is_gone() -> None:
    assert set(ELSEWHERE) <= set(modules())


def test_every_file_of_tests_has_its_module() -> None:
    files = {path.relative_to(UNIT) for path in UNIT.rglob("test_*.py")}
    assert len(files) > 300
    mirrored = {file.with_name(file.name.removeprefix("test_")) for file in files}
    stale = {
        file.with_name(f"test_{file.name}").as_posix()
        for file in mirrored
        if not any((folder / file).is_file() for folder in (PACKAGE, ROOT, ROOT / "tests"))
    }
    assert stale == WIDER
