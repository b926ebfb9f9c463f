"""A partition's compaction as work on files: plan -> units -> stage -> verify -> name. Neither SQL nor Spark in here."""
