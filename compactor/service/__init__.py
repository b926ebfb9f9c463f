"""One pass of each role, and the verbs that faces offer. Knows neither Airflow nor a command line."""
