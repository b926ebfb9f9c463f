"""The command line: ``compactor``. Modules here are thin; what they need is imported inside the commands."""

from __future__ import annotations


def main() -> None:
    """The console script."""
    from compactor.cli.program import program

    program(prog_name="compactor")
