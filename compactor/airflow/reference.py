"""``python -m compactor.airflow.reference`` prints docs/airflow-settings.md, made from the options and the pools' keys."""

from __future__ import annotations

import sys

from compactor.airflow.options import OPTIONS, SECTION
from compactor.compaction.pool_policy import KEYS

_HEAD = f"""\
# Settings of the Airflow face

This page is made by `python -m compactor.airflow.reference > docs/airflow-settings.md`. What they are for is in
[airflow.md](airflow.md); the settings of compaction itself are in [configuration.md](configuration.md).

## `[{SECTION}]` in airflow.cfg

As every option of Airflow, each is given in the file, or in the environment as `AIRFLOW__{SECTION.upper()}__OPTION`.
They are read when DAGs are parsed and when tasks run.

| option | default | effect |
|---|---|---|
"""
_POOLS = """
## `[metastore.NAME.pool.POOL]` in compactor.toml

What a site says of a compaction pool. `default` is the pool of requests that name none; a pool of which nothing is said has
no bounds.

| key | kind | default | effect |
|---|---|---|---|
"""


def page() -> str:
    """The whole document."""
    lines = [_HEAD]
    for key, option in OPTIONS.items():
        example = f" For example `{option.example}`." if option.example else ""
        default = f"`{option.default}`" if option.default else "empty"
        lines.append(f"| `{key}` | {default} | {option.description}{example} |\n")
    lines.append(_POOLS)
    lines += [f"| `{key.key}` | {key.kind} | {key.default or 'none'} | {key.effect} |\n" for key in KEYS]
    return "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
