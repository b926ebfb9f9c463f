"""Lines as spark-submit 4.3 and Hadoop 3.4.1 write them."""

from __future__ import annotations

import pytest

from compactor.launch.yarn_refusal import find_reason

ID = "application_1795511587900_0002"
YARN = 'Exception in thread "main" org.apache.hadoop.yarn.exceptions.YarnException: '
AT = "\n\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"{YARN}Failed to submit {ID} to YARN : Application {ID} submitted by user root to unknown queue: nope{AT}",
            f"Application {ID} submitted by user root to unknown queue: nope",
        ),
        (
            f"{YARN}org.apache.hadoop.security.AccessControlException: User root does not have permission to submit {ID} "
            f"to queue closed{AT}Caused by: org.apache.hadoop.security.AccessControlException: User root does not{AT}",
            f"User root does not have permission to submit {ID} to queue closed",
        ),
        (
            f"{YARN}Failed to submit {ID} to YARN : org.apache.hadoop.security.AccessControlException: Queue root.full "
            f"already has 1 applications, cannot accept submission of application: {ID}{AT}",
            f"Queue root.full already has 1 applications, cannot accept submission of application: {ID}",
        ),
        (
            "2026-11-24 09:00:00,001 INFO compactor.x: begins\n2026-11-24 09:00:00,001 ERROR compactor: metastore default: "
            f"no database is configured{AT}",
            "metastore default: no database is configured",
        ),
        (
            "Traceback\n  File x\nModuleNotFoundError: No module named 'compactor'\n",
            "ModuleNotFoundError: No module named 'compactor'",
        ),
        (
            f'Exception in thread "main" java.io.IOException: Cannot run program "./python"{AT}',
            'Cannot run program "./python"',
        ),
        ("26/11/24 09:13:21 INFO Client: nothing", None),
    ],
)
def test_the_sentence_that_says_why(text: str, reason: str | None) -> None:
    assert find_reason(text) == reason
