"""Five DAGs for each metastore named in ``[compactor] metastores`` of Airflow's configuration.

=======================  ==========================================================================
compaction_initiator     queues compactions for tables over a threshold
compaction_worker        submits batches of queued requests to Spark
compaction_cleaner       removes directories that no reader needs any longer
acid_housekeeper         times out dead transactions, purges the history
compact_table            ALTER TABLE ... COMPACT, by hand: form, REST or CLI
=======================  ==========================================================================

For a metastore other than ``default`` its name is appended to each: ``compaction_worker__archive``.
"""

from __future__ import annotations

from compactor.airflow.configuration import metastore_names
from compactor.airflow.dags import compaction_dags

for _metastore in metastore_names():
    for _dag in compaction_dags(_metastore):
        globals()[_dag.dag_id] = _dag
