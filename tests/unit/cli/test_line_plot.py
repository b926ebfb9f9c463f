from __future__ import annotations

from xml.etree import ElementTree

from compactor.cli.line_plot import HEIGHT, WIDTH, line_plot


def test_curves_are_drawn_within_the_picture() -> None:
    drawn = ElementTree.fromstring(line_plot("A <title>", {"one": [(0, 1.0), (10, 4.0)], "two & more": [(0, 0.0)]}))
    lines = [line.attrib["points"] for line in drawn.findall("{*}polyline")]
    assert len(lines) == 2
    points = [tuple(map(float, point.split(","))) for line in lines for point in line.split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert points[1][1] < points[0][1] < points[2][1]  # what is larger is higher
    texts = [text.text for text in drawn.findall("{*}text")]
    assert {"A <title>", "— one", "— two & more"} <= set(texts)


def test_nothing_is_drawn_of_nothing() -> None:
    drawn = ElementTree.fromstring(line_plot("Nothing", {"one": []}))
    assert [line.attrib["points"] for line in drawn.findall("{*}polyline")] == [""]
