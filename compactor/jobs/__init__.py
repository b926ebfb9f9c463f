"""Spark applications that launchers start."""
