"""YARN's own word on applications: found by id or tag, ended, and why one was refused. Knows nothing of batches."""
