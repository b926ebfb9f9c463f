"""The templates and images that we offer, by Kubernetes' own schemas and by a linter of Dockerfiles."""

from __future__ import annotations

import subprocess
from importlib.metadata import version

import kubernetes_validate
import pytest
import yaml

from tests.support.downloads import ROOT

DOCUMENTS = [
    (path.name, document)
    for path in sorted((ROOT / "docker" / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text("utf-8"))
]
RELEASES = ("1.31", ".".join(version("kubernetes-validate").split(".")[:2]))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("name", "document"), DOCUMENTS, ids=[f"{name}-{one['kind']}" for name, one in DOCUMENTS])
def test_each_manifest_is_valid(name: str, document: dict[str, object], release: str) -> None:
    kubernetes_validate.validate(document, release, strict=True)


def test_a_wrong_one_is_not() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"nam": "x"}]}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, RELEASES[-1], strict=True)


@pytest.mark.parametrize("path", sorted((ROOT / "docker").glob("*Dockerfile")), ids=lambda path: path.name)
def test_each_dockerfile_is_clean(path: object) -> None:
    done = subprocess.run(["hadolint", "--no-color", str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
