"""The keeper: one process for each driver's host and application, which holds transactions, their locks and heartbeats."""
