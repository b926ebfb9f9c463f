"""The container of YARN in which a process runs, by the environment that its NodeManager gave it."""

from __future__ import annotations

from collections.abc import Mapping

from compactor.launch.yarn_configuration import is_https, read_configuration

_NEEDED = ("CONTAINER_ID", "NM_HOST", "NM_HTTP_PORT", "USER")


def log_url(environ: Mapping[str, str]) -> str | None:
    """Returns where the container's output can be read, also while it runs; None outside of one. A NodeManager whose logs
    are aggregated passes the reader on."""
    if not all(environ.get(name) for name in _NEEDED):
        return None
    container, host, port, user = (environ[name] for name in _NEEDED)
    scheme = "https" if is_https(read_configuration(environ)) else "http"
    return f"{scheme}://{host}:{port}/node/containerlogs/{container}/{user}"
