"""``python -m demo run|up``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.markup import escape

from compactor.base.errors import CompactorError
from demo.run import Demo

_ROOT = Path(__file__).resolve().parents[1]


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo and leaves no process behind. Exit codes: 0 success, 1 failure, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="The demo of Compactor.")
    parser.add_argument("what", choices=("run", "up"), help="run: to the end and stop; up: leave Airflow's UI running")
    parser.add_argument("--folder", type=Path, default=Path("build/demo"), help="wiped at the beginning")
    parser.add_argument("--months", type=int, default=12, choices=range(1, 13), metavar="1..12", help="of flights")
    parser.add_argument("--port", type=int, default=None, help="of Airflow; default: a free one")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # SIGINT too: a shell starts background processes with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    # The table needs this width; a narrower terminal wraps the lines itself.
    console = Console()
    console.width = max(console.width, 150)
    demo = Demo(_ROOT, options.folder.resolve(), console, months=options.months, port=options.port)
    try:
        demo.run() if options.what == "run" else demo.up()
    except CompactorError as error:
        console.print(f"[bold red]The demo failed.[/bold red] {escape(str(error))}", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("Stopped.")
        return 0 if options.what == "up" else 130
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
