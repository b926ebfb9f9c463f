from __future__ import annotations

import gc

import pytest

from compactor.service import collector


def test_it_waits_and_is_as_it_was_afterwards() -> None:
    with collector.waiting():
        assert not gc.isenabled()
        with collector.waiting():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(KeyError), collector.waiting():
        raise KeyError
    assert gc.isenabled()
