"""An ORC file as parts that can be put together again, and the place of each of its sections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from compactor.orc.format import messages
from compactor.orc.format.compression import Compression, compress, decompress

BLOCK = 256 * 1024
INDEX_KINDS = {6: "row index", 7: "bloom filter", 8: "bloom filter"}
DATA_KINDS = {0: "present", 1: "data", 2: "length", 3: "dictionary", 4: "dictionary count", 5: "secondary"}


class Section(NamedTuple):
    """Where a section lies in the file, in bytes."""

    name: str
    start: int
    end: int


@dataclass(slots=True)
class StripeParts:
    """A stripe's streams in their order, and its footer."""

    streams: list[bytes]
    footer: Any
    rows: int


@dataclass(slots=True)
class Parts:
    """A whole file. Lengths that messages hold are set again by ``put_together``, but for ``forged`` ones."""

    script: Any
    footer: Any
    metadata: Any
    stripes: list[StripeParts] = field(default_factory=list)

    @property
    def compression(self) -> Compression:
        return Compression(self.script.compression)

    def plain(self, data: bytes) -> bytes:
        return decompress(data, self.compression, self.script.compression_block_size or BLOCK, "victim")

    def packed(self, data: bytes) -> bytes:
        return compress(data, self.compression, self.script.compression_block_size or BLOCK)


def take_apart(data: bytes) -> Parts:
    """Returns the parts of an intact file."""
    size = data[-1]
    script = messages.PostScript.FromString(data[-1 - size : -1])
    parts = Parts(script=script, footer=None, metadata=None)
    footer_end = len(data) - 1 - size
    footer_start = footer_end - script.footer_length
    metadata_start = footer_start - script.metadata_length
    parts.footer = messages.Footer.FromString(parts.plain(data[footer_start:footer_end]))
    parts.metadata = messages.Metadata.FromString(parts.plain(data[metadata_start:footer_start]))
    for stripe in parts.footer.stripes:
        end = stripe.offset + stripe.index_length + stripe.data_length
        footer = messages.StripeFooter.FromString(parts.plain(data[end : end + stripe.footer_length]))
        streams, place = [], stripe.offset
        for stream in footer.streams:
            streams.append(data[place : place + stream.length])
            place += stream.length
        parts.stripes.append(StripeParts(streams=streams, footer=footer, rows=stripe.number_of_rows))
    return parts


def put_together(parts: Parts, *, keep_footer_as_is: bool = False) -> bytes:
    """Returns the file of ``parts``. Places and lengths are right, unless the footer is to stay as forged."""
    out = bytearray(b"ORC")
    for stripe, said in zip(parts.stripes, parts.footer.stripes, strict=False):
        start = len(out)
        index = 0
        for stream, data in zip(stripe.footer.streams, stripe.streams, strict=False):
            out += data
            index += len(data) if stream.kind in INDEX_KINDS else 0
        data_end = len(out)
        out += parts.packed(stripe.footer.SerializeToString())
        if not keep_footer_as_is:
            said.offset, said.index_length, said.data_length = start, index, data_end - start - index
            said.footer_length = len(out) - data_end
    metadata = parts.packed(parts.metadata.SerializeToString())
    footer = parts.packed(parts.footer.SerializeToString())
    script = messages.PostScript.FromString(parts.script.SerializeToString())
    if not keep_footer_as_is:
        script.metadata_length, script.footer_length = len(metadata), len(footer)
    end = script.SerializeToString()
    return bytes(out) + metadata + footer + end + bytes([len(end) & 255])


def sections(data: bytes) -> list[Section]:
    """Returns every section of an intact file, in file order."""
    parts = take_apart(data)
    found = [Section("header", 0, 3)]
    for number, (stripe, said) in enumerate(zip(parts.stripes, parts.footer.stripes, strict=True)):
        place = said.offset
        for stream, content in zip(stripe.footer.streams, stripe.streams, strict=True):
            kind = INDEX_KINDS.get(stream.kind) or DATA_KINDS[stream.kind]
            found.append(Section(f"stripe {number} column {stream.column} {kind}", place, place + len(content)))
            place += len(content)
        found.append(Section(f"stripe {number} footer", place, place + said.footer_length))
    script_start = len(data) - 1 - data[-1]
    footer_start = script_start - parts.script.footer_length
    found.append(Section("metadata", footer_start - parts.script.metadata_length, footer_start))
    found.append(Section("footer", footer_start, script_start))
    found.append(Section("postscript", script_start, len(data)))
    return [section for section in found if section.end > section.start]
