"""The page in Airflow's UI: the state of every table, queue, blockers, history and settings."""
