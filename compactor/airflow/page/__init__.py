"""The page inside Airflow's UI: the state of every table, the queue, blockers, the history and settings."""
