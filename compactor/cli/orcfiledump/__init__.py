"""The output of ``hive --orcfiledump``, byte for byte, as Hive 4.1 with ORC 2.1.2 prints it: a file's structure and rows."""

from __future__ import annotations
