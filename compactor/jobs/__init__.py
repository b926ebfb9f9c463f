"""Applications that launchers start."""
