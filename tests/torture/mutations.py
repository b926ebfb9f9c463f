"""Damage to a file, all of it decided by one seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from compactor.orc.format import messages
from tests.torture.anatomy import DATA_KINDS, INDEX_KINDS, Parts, Section, put_together, sections, take_apart

#: What numbers become when they are forged: nothing, the ends of 31, 32, 63 and 64 bits, and what lies close by.
FORGED = (0, 1, 2, 255, 65_536, 2**20, 2**27, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A damaged file; ``where`` is the section or message that was hit, ``how`` the kind of damage."""

    where: str
    how: str
    data: bytes

    @property
    def in_data(self) -> bool:
        """True if only bytes of data streams differ, which nothing in a file protects."""
        return self.where.startswith("stripe") and self.where.split(" ", 4)[-1] in DATA_KINDS.values()


def mutate(data: bytes, seed: int) -> Mutation:
    """Returns one mutation of ``data``; the same seed gives the same one."""
    dice = random.Random(seed)
    kind = dice.choices(list(_KINDS), weights=list(_KINDS.values()))[0]
    return kind(data, dice)


def _section(data: bytes, dice: random.Random) -> Section:
    """Picks a section: every kind as likely as any other, however many there are of it."""
    by_kind: dict[str, list[Section]] = {}
    for section in sections(data):
        by_kind.setdefault(section.name.split(" ", 4)[-1] if "column" in section.name else section.name, []).append(
            section
        )
    return dice.choice(by_kind[dice.choice(sorted(by_kind))])


def _flip(data: bytes, dice: random.Random) -> Mutation:
    where = _section(data, dice)
    damaged = bytearray(data)
    count = dice.choice((1, 1, 1, 2, 5))
    for _ in range(count):
        damaged[dice.randrange(where.start, where.end)] ^= 1 << dice.randrange(8)
    return Mutation(where=where.name, how=f"{count} bits", data=bytes(damaged))


def _overwrite(data: bytes, dice: random.Random) -> Mutation:
    where = _section(data, dice)
    start = dice.randrange(where.start, where.end)
    length = min(where.end - start, dice.choice((1, 2, 4, 16, 4096)))
    filler = dice.choice((b"\0" * length, b"\xff" * length, dice.randbytes(length)))
    return Mutation(
        where=where.name, how=f"{length} bytes at {start}", data=data[:start] + filler + data[start + length :]
    )


def _truncate(data: bytes, dice: random.Random) -> Mutation:
    where = _section(data, dice)
    end = dice.randrange(where.start, where.end)
    return Mutation(where="tail", how=f"truncated to {end} bytes", data=data[:end])


def _cut(data: bytes, dice: random.Random) -> Mutation:
    where = _section(data, dice)
    start = dice.randrange(where.start, where.end)
    end = dice.randrange(start, where.end) + 1
    return Mutation(where="tail", how=f"without {start}..{end} in {where.name}", data=data[:start] + data[end:])


def _swap(data: bytes, dice: random.Random) -> Mutation:
    """Exchanges two sections; everything between them moves."""
    a, b = sorted((_section(data, dice), _section(data, dice)), key=lambda s: s.start)
    if a == b:
        return _flip(data, dice)
    moved = data[b.start : b.end] + data[a.end : b.start] + data[a.start : a.end]
    return Mutation(where="tail", how=f"{a.name} and {b.name} swapped", data=data[: a.start] + moved + data[b.end :])


def _swap_streams(data: bytes, dice: random.Random) -> Mutation:
    """Exchanges two streams of a stripe together with their lengths: each is intact, but in the other's place."""
    parts = take_apart(data)
    stripe = dice.choice(parts.stripes)
    group = dice.choice([INDEX_KINDS, DATA_KINDS])
    places = [place for place, stream in enumerate(stripe.footer.streams) if stream.kind in group]
    if len(places) < 2:
        return _flip(data, dice)
    a, b = dice.sample(places, 2)
    stripe.streams[a], stripe.streams[b] = stripe.streams[b], stripe.streams[a]
    for place in (a, b):
        stripe.footer.streams[place].length = len(stripe.streams[place])
    what = "index" if group is INDEX_KINDS else "data"
    return Mutation(where=f"stripe ? column ? {what}", how=f"streams {a} and {b} swapped", data=put_together(parts))


def _forge_footer(data: bytes, dice: random.Random) -> Mutation:
    parts = take_apart(data)
    how = _forge(parts.footer, dice)
    return Mutation(where="footer", how=how, data=put_together(parts, keep_footer_as_is=True))


def _forge_script(data: bytes, dice: random.Random) -> Mutation:
    parts = take_apart(data)
    forged = parts.script
    whole = put_together(parts)
    script = messages.PostScript.FromString(whole[-1 - whole[-1] : -1])
    how = _forge(script, dice)
    end = script.SerializeToString()
    del forged
    return Mutation(where="postscript", how=how, data=whole[: -1 - whole[-1]] + end + bytes([len(end) & 255]))


def _forge_metadata(data: bytes, dice: random.Random) -> Mutation:
    parts = take_apart(data)
    how = _forge(parts.metadata, dice)
    return Mutation(where="metadata", how=how, data=put_together(parts))


def _forge_stripe_footer(data: bytes, dice: random.Random) -> Mutation:
    parts = take_apart(data)
    number = dice.randrange(len(parts.stripes))
    how = _forge(parts.stripes[number].footer, dice)
    return Mutation(where=f"stripe {number} footer", how=how, data=put_together(parts))


def _forge_index(data: bytes, dice: random.Random) -> Mutation:
    parts = take_apart(data)
    stripe = dice.choice(parts.stripes)
    places = [place for place, stream in enumerate(stripe.footer.streams) if stream.kind in INDEX_KINDS]
    if not places:
        return _flip(data, dice)
    # half of them in the columns by which rows are found
    place = dice.choice(places[:6] if dice.random() < 0.5 else places)
    kind = messages.RowIndex if stripe.footer.streams[place].kind == 6 else messages.BloomFilterIndex
    index = kind.FromString(parts.plain(stripe.streams[place]))
    how = _forge(index, dice)
    stripe.streams[place] = parts.packed(index.SerializeToString())
    stripe.footer.streams[place].length = len(stripe.streams[place])
    return Mutation(where="row index", how=f"stream {place}: {how}", data=put_together(parts))


def _forge(message: Any, dice: random.Random) -> str:
    """Changes one number, text or list somewhere in ``message``."""
    found = list(_leaves(message))
    if not found:
        return "nothing to forge"
    # by name first: there are many more statistics than anything else
    name = dice.choice(sorted({name for name, _ in found}))
    return dice.choice([change for known, change in found if known == name])(dice)


def _leaves(message: Any, path: str = "") -> Iterator[tuple[str, Callable[[random.Random], str]]]:
    for descriptor in message.DESCRIPTOR.fields:
        name = f"{path}.{descriptor.name}"
        value = getattr(message, descriptor.name)
        if descriptor.is_repeated:
            if len(value):
                yield f"{name}[]", lambda dice, value=value, name=name: _relist(value, name, dice)
            if descriptor.message_type is not None:
                for item in value:
                    yield from _leaves(item, name)
        elif descriptor.message_type is not None:
            if message.HasField(descriptor.name):
                yield from _leaves(value, name)
        elif message.HasField(descriptor.name):
            yield name, lambda dice, descriptor=descriptor, name=name: _reset(message, descriptor, name, dice)


def _relist(items: Any, name: str, dice: random.Random) -> str:
    """An entry less, twice, or another number in a list."""
    place = dice.randrange(len(items))
    action = dice.choice(("less", "none", "twice", "other"))
    if action == "none":
        del items[:]
    elif action == "twice":
        items.append(items[place])
    elif action == "other" and isinstance(items[place], int):
        items[place] = dice.choice([n for n in FORGED if n < 2**32])
    else:
        action = "less"
        del items[place]
    return f"{name}: {place} {action}"


def _reset(message: Any, descriptor: Any, name: str, dice: random.Random) -> str:
    if dice.random() < 0.2:
        message.ClearField(descriptor.name)
        return f"{name} cleared"
    value: Any
    if descriptor.cpp_type in (descriptor.CPPTYPE_STRING,):
        value = dice.randbytes(dice.choice((0, 1, 300)))
        setattr(message, descriptor.name, value)
        return f"{name} = {len(value)} bytes"
    if descriptor.cpp_type == descriptor.CPPTYPE_BOOL:
        value = not getattr(message, descriptor.name)
    elif descriptor.cpp_type in (descriptor.CPPTYPE_DOUBLE, descriptor.CPPTYPE_FLOAT):
        value = dice.choice((0.0, -1.0, float("nan"), float("inf")))
    else:
        bits = 32 if descriptor.cpp_type in (descriptor.CPPTYPE_INT32, descriptor.CPPTYPE_UINT32) else 64
        signed = descriptor.cpp_type in (descriptor.CPPTYPE_INT32, descriptor.CPPTYPE_INT64)
        near = getattr(message, descriptor.name) + dice.choice((-2, -1, 1, 2))
        value = dice.choice((near, near, *FORGED)) % 2**bits
        value = value - 2**bits if signed and value >= 2 ** (bits - 1) else value
    setattr(message, descriptor.name, value)
    return f"{name} = {value}"


_KINDS: dict[Callable[[bytes, random.Random], Mutation], int] = {
    _flip: 6,
    _overwrite: 3,
    _truncate: 1,
    _cut: 1,
    _swap: 2,
    _swap_streams: 2,
    _forge_footer: 3,
    _forge_script: 1,
    _forge_metadata: 2,
    _forge_stripe_footer: 3,
    _forge_index: 2,
}


def parts_of(data: bytes) -> Parts:
    """Takes a file apart, for tests of this module."""
    return take_apart(data)
