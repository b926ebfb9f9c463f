"""Five DAGs for each metastore named in ``[compactor] metastores`` of Airflow's configuration.

=======================  ==========================================================================
compaction_initiator     finds what a threshold says is due and queues it
compaction_worker        submits batches of queued requests to Spark
compaction_cleaner       removes what no reader needs any more
acid_housekeeper         times out dead transactions, keeps history short
compact_table            ALTER TABLE ... COMPACT, by hand: form, REST or CLI
=======================  ==========================================================================

A metastore other than ``default`` has its name behind each: ``compaction_worker__archive``.
"""

from __future__ import annotations

from compactor.airflow.configuration import metastore_names
from compactor.airflow.dags import compaction_dags

for _metastore in metastore_names():
    for _dag in compaction_dags(_metastore):
        globals()[_dag.dag_id] = _dag
