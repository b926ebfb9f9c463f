"""``compactor metrics``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compactor.base.errors import StorageError
from compactor.base.stop_signals import catch_stop_signals
from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json, say

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT, or a port of this machine's loopback address."""

    name = "[HOST:]PORT"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, _, port = value.rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) < 2**16):
            self.fail(f"{value!r}: expected a port up to 65535, or HOST:PORT", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


@click.command()
@click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the metrics to this file in one step, for the textfile collector of a node exporter.",
)
@click.option("--listen", "address", type=Address(), help="Answer GET /metrics until stopped; port 0 picks a free one.")
@with_context
def metrics(context: CliContext, path: Path | None, address: tuple[str, int] | None) -> None:
    """Print metrics for Prometheus: the queue, ages, alarms, health, and gains of compactions."""
    from prometheus_client import generate_latest, write_to_textfile

    from compactor.answers import metrics as service

    if path is not None and address is not None:
        raise click.UsageError("--file and --listen exclude each other")
    if address is not None:
        collector = service.MetastoreCollector(context.metastore, lambda: context.site(read_only=True))
        _serve(address, service.registry_of(collector))
        return
    with context.site(read_only=True) as site:
        metrics = service.read_now(site)
    if context.json:
        print_json(
            [
                {"name": sample.name, "labels": sample.labels, "value": sample.value}
                for family in metrics.collect()
                for sample in family.samples
            ]
        )
    elif path is None:
        click.echo(generate_latest(service.registry_of(metrics)), nl=False)
    else:
        try:
            write_to_textfile(str(path), service.registry_of(metrics))
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def _serve(address: tuple[str, int], registry: CollectorRegistry) -> None:
    from compactor.cli.metrics_server import serve_metrics

    host, port = address
    with catch_stop_signals() as stop, ExitStack() as stack:
        try:
            bound_port = stack.enter_context(serve_metrics(host, port, registry))
        except OSError as error:
            raise StorageError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; give another port"
            ) from error
        say(f"metrics: http://{f'[{host}]' if ':' in host else host}:{bound_port}/metrics")
        while not stop.wait(3600):
            pass
