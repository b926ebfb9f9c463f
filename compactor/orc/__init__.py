"""The ORC file format, as far as copying stripes and re-encoding ACID rows needs it."""
