"""Runs one pass of each role, and carries out and answers what people ask. Knows neither Airflow nor a command line."""
