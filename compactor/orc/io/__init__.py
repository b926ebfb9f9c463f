"""The files from which ORC data is read and to which it is written."""

from __future__ import annotations
