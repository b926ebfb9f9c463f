"""The summary of a plan, for people. It needs nothing of the plan itself."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.settings.output_class import OutputClass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """A plan in a few words.

    ``slices``, each of at most ``slice_deltas`` deltas, are merged first. ``delay`` says what ``compactor.naming.delay``
    does; None where it is not set. ``output_class`` is the class of files that the request wants.
    """

    slices: int = 0
    slice_deltas: int = 0
    delay: str | None = None
    output_class: OutputClass | None = None

    def to_json(self) -> dict[str, object]:
        output_class = None if self.output_class is None else str(self.output_class)
        return {"slices": self.slices, "delay": self.delay, "output_class": output_class}

    @property
    def sentences(self) -> list[str]:
        """The summary as sentences for people."""
        sentences: list[str] = []
        if self.slices:
            sentences.append(
                f"{self.slices} slices of at most {self.slice_deltas} deltas are merged in the staging directory first "
                "(hive.compactor.max.num.delta)"
            )
        if self.delay is not None:
            sentences.append(f"compactor.naming.delay: {self.delay}")
        if self.output_class is not None:
            sentences.append(f"{self.output_class}: stripes of another class are re-encoded")
        return sentences
