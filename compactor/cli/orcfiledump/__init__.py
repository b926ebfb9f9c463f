"""The output of ``hive --orcfiledump``: a file's structure and rows.

It equals the output of Hive 4.1 with ORC 2.1.2 byte for byte.
"""

from __future__ import annotations
