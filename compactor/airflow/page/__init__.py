"""The page inside Airflow's UI: what every table needs, what runs, who is in the way, what it brought."""
