"""Engine, clock and retry: what metastore and state share. No table is known here."""
