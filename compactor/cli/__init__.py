"""The command line ``compactor``.

Each command imports what it needs when it runs, so that the program starts fast.
"""

from __future__ import annotations


def main() -> None:
    """Runs the console script."""
    from compactor.cli.program import program

    program(prog_name="compactor")
