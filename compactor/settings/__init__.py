"""Settings: what there is, where a value comes from, and the texts they are read from. Pure."""
