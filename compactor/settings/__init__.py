"""Settings: their catalogue, the precedence of their sources, and the file formats they are read from. Pure."""
