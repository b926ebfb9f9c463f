"""The command line ``compactor``. Its modules are thin; commands import what they need when they run."""

from __future__ import annotations


def main() -> None:
    """Runs the console script."""
    from compactor.cli.program import program

    program(prog_name="compactor")
