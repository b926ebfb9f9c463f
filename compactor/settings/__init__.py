"""Settings: their catalogue, the precedence of their sources, and the formats of their files. Pure."""
