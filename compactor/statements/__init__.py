"""SQL: a text becomes statements, each with its accesses, which its locks follow from, and its action.

Pure.
"""
