"""The command line ``compactor``.

Each command imports what it needs when it runs, so that the program starts fast.
"""

from __future__ import annotations

import gc

#: Objects between two collections until ``collect_as_usual``; imports leave no garbage.
_WHILE_IMPORTING = 300_000
_AS_USUAL = gc.get_threshold()


def main() -> None:
    """Runs the console script."""
    gc.set_threshold(_WHILE_IMPORTING)
    from compactor.cli.program import program

    program(prog_name="compactor")


def collect_as_usual() -> None:
    """Ends what ``main`` began. The modules that are there stay, so no collection looks at them again."""
    if gc.get_threshold()[0] == _WHILE_IMPORTING:
        gc.freeze()
        gc.set_threshold(*_AS_USUAL)
