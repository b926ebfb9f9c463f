"""Rewrites the files of one partition: plan -> units -> attempt files -> staged -> verified -> named.

Each room imports only later ones: ``run`` (executes units) and ``publish`` (stages and names their outputs), then
``insert_only``, ``full_acid``, ``plan``. There is neither SQL nor Spark in here.
"""
