from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from compactor.base.errors import NotSupported
from compactor.launch.spark_session import (
    _choose_name,
    _default_conf,
    _is_shipped_file,
    attempt_number,
    is_alive,
    start_session,
    tracking_url,
)


def test_without_spark_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(NotSupported, match=r"install hive-compactor\[spark\], or use --in-process"):
        start_session("compactor")


def test_a_stopped_context_is_not_alive() -> None:
    stopped = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    assert not is_alive(stopped)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "given", "is_shipped"),
    [
        ("spark.archives", {"spark.yarn.dist.archives": "a"}, True),
        ("spark.archives", {"spark.archives": "a"}, True),
        ("spark.archives", {}, False),
        ("spark.executor.memory", {"spark.executor.memory": "1g"}, False),
    ],
)
def test_what_spark_submit_has_uploaded_stays(key: str, given: dict[str, str], is_shipped: bool) -> None:
    """The batch's own conf wins otherwise, over spark-defaults.conf too."""
    assert _is_shipped_file(key, given) is is_shipped


def test_the_name_that_spark_submit_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/worker.py", "--batch", "7"])
    assert _choose_name({}, "compactor-default-7") == "compactor-default-7"
    assert _choose_name({"spark.app.name": "worker.py"}, "compactor-default-7") == "compactor-default-7"
    assert _choose_name({"spark.app.name": "here-compactor-a.t"}, "compactor-default-7") == "here-compactor-a.t"


class Context(SimpleNamespace):
    def getConf(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(getAll=lambda: list(self.conf.items()))


@pytest.mark.parametrize("package", ["hadoop.yarn.server.webproxy.amfilter", "spark.deploy.yarn"])
def test_yarn_s_proxy_is_where_people_look(package: str) -> None:
    """Spark 3.5 has Hadoop's filter, Spark 4 one of its own."""
    conf = {f"spark.org.apache.{package}.AmIpFilter.param.PROXY_URI_BASES": "http://a/proxy/1,http://b/proxy/1"}
    one: Any = SimpleNamespace(sparkContext=Context(conf=conf, uiWebUrl="http://node:4040"))
    assert tracking_url(one) == "http://a/proxy/1"
    assert (
        tracking_url(SimpleNamespace(sparkContext=Context(conf={}, uiWebUrl="http://node:4040"))) == "http://node:4040"
    )  # type: ignore[arg-type]


def test_a_jvm_that_no_rows_pass_through_compiles_its_code_once() -> None:
    assert _default_conf("local[2]")["spark.driver.defaultJavaOptions"] == "-XX:TieredStopAtLevel=1"
    assert "spark.driver.defaultJavaOptions" not in _default_conf("yarn")


@pytest.mark.parametrize(("found", "number"), [(None, 1), ("2", 2), ("local", 1)])
def test_the_number_of_the_attempt(found: str | None, number: int) -> None:
    option = SimpleNamespace(isDefined=lambda: found is not None, get=lambda: found)
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(applicationAttemptId=lambda: option)))
    assert attempt_number(SimpleNamespace(sparkContext=context)) == number  # type: ignore[arg-type]
