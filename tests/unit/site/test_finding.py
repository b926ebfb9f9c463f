from __future__ import annotations

from compactor.site.finding import Finding, Level, first_few, ok


def test_json_has_every_field() -> None:
    finding = Finding(level=Level.WARN, subject="s", found="f", wanted="w", fix="x")
    assert finding.to_json() == {"level": "warn", "subject": "s", "found": "f", "wanted": "w", "fix": "x"}
    assert ok("s", "f") == Finding(level=Level.OK, subject="s", found="f")


def test_many_names_are_cut() -> None:
    assert first_few(["a", "b"]) == "a; b"
    assert first_few(list("abcdefg")) == "a; b; c; d; e and 2 more"
