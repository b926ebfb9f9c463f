"""The keeper: one process that holds the transactions, locks and heartbeats of an application.

There is one for each driver's host and application.
"""
