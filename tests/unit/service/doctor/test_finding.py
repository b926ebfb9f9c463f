from __future__ import annotations

from compactor.service.doctor.finding import Finding, Level, few, fine


def test_json_has_every_field() -> None:
    finding = Finding(level=Level.WARN, subject="s", found="f", wanted="w", fix="x")
    assert finding.to_json() == {"level": "warn", "subject": "s", "found": "f", "wanted": "w", "fix": "x"}
    assert fine("s", "f") == Finding(level=Level.OK, subject="s", found="f")


def test_many_names_are_cut() -> None:
    assert few(["a", "b"]) == "a; b"
    assert few(list("abcdefg")) == "a; b; c; d; e and 2 more"
