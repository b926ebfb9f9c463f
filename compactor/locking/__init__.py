"""Hive's locks: types, compatibility, order of requests, waiting times and the locks of statements.

Pure.
"""
