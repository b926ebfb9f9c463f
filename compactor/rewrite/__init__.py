"""Rewrites one partition, as work on files: plan -> units -> attempt files -> staged -> verified -> named.

Rooms, each importing only the later ones: ``run`` (executes units) and ``publish`` (stages and names their outputs), then
``insert_only``, ``full_acid``, ``plan``. Neither SQL nor Spark in here.
"""
