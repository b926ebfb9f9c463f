"""The most that a file may hold."""

from __future__ import annotations

from dataclasses import fields

import pytest

from compactor.base.errors import BadFile
from compactor.settings import file_limits
from compactor.settings.file_limits import UNLIMITED, FileLimits, too_deep
from compactor.settings.precedence import Settings


def test_a_site_that_sets_nothing_has_the_defaults() -> None:
    assert FileLimits.from_settings(Settings.of([])) == FileLimits()


def test_as_much_as_is_allowed_passes() -> None:
    limits = FileLimits(stripes=3, columns=4)
    limits.check_stripes("/w/t/f", 3)
    limits.check_columns("/w/t/f", 4)


@pytest.mark.parametrize(
    ("check", "key"),
    [
        (lambda limits: limits.check_stripes("/w/t/f", 4), file_limits.STRIPES),
        (lambda limits: limits.check_columns("/w/t/f", 4), file_limits.COLUMNS),
    ],
)
def test_more_is_refused_with_the_setting_that_allows_it(check: object, key: str) -> None:
    with pytest.raises(BadFile, match=rf"file /w/t/f: has 4 .* or more.*, at most 3 are read \({key}\);.*raise {key}"):
        check(FileLimits(stripes=3, columns=3))  # type: ignore[operator]


def test_what_is_too_long_or_too_deep_is_named() -> None:
    limits = FileLimits(footer_bytes=160, stripe_bytes=9)
    assert "its footer has 11 parts or more, most of them empty, at most 10" in str(
        limits.too_many_parts("f", "footer", 11)
    )
    assert "(compactor.stripe.bytes)" in str(limits.too_long_stripe("f", 10))
    assert "(compactor.file.depth)" in str(too_deep("f", 101, 100))


def test_files_of_ours_have_no_limit_that_a_file_could_reach() -> None:
    assert all(getattr(UNLIMITED, field.name) > 2**60 for field in fields(UNLIMITED))
