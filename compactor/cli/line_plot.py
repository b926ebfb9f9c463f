"""Curves over time as a picture (SVG) that needs no library, in the colours of the page's plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from compactor.base.utc import utc_text

WIDTH, HEIGHT = 760, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 62, 34
_COLOURS = ("#5b6470", "#2477d4", "#e0912f", "#16693a")
_LINES = 4  #: of the grid
Curve = Sequence[tuple[int, float]]


def line_plot(title: str, curves: Mapping[str, Curve]) -> str:
    """Returns a picture of named curves, each of times (epoch ms) and values that are not below zero."""
    points = [point for curve in curves.values() for point in curve]
    times = [at for at, _ in points] or [0, 1]
    begin, end = min(times), max(max(times), min(times) + 1)
    top = max([value for _, value in points] + [1.0])

    def place(at: float, value: float) -> str:
        x = _LEFT + (at - begin) / (end - begin) * (WIDTH - _LEFT - _RIGHT)
        return f"{x:.1f},{_height(value / top):.1f}"

    parts = [_text(_LEFT, 22, title, size=15), *_grid(top), *_dates(begin, end)]
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(place(at, value) for at, value in curve)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{line}"/>')
        parts.append(_text(_LEFT + 170 * number, 46, f"— {name}", colour=colour))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif">'
    )
    background = f'<title>{escape(title)}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    return "\n".join([head, background, *parts, "</svg>", ""])


def _height(share: float) -> float:
    return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)


def _grid(top: float) -> list[str]:
    lines = []
    for number in range(_LINES + 1):
        y = _height(number / _LINES)
        lines.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e1e4e8"/>')
        lines.append(_text(_LEFT - 8, y + 4, f"{top * number / _LINES:.3g}", anchor="end"))
    return lines


def _dates(begin: int, end: int) -> list[str]:
    y = HEIGHT - 10
    return [
        _text(_LEFT, y, utc_text(begin)),
        _text(WIDTH - _RIGHT, y, utc_text(end), anchor="end"),
    ]


def _text(x: float, y: float, text: str, *, size: int = 12, colour: str = "#1b1f24", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
    )
