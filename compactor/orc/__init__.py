"""The ORC file format, as far as copying stripes and re-encoding rows of ACID files needs it."""
