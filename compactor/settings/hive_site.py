"""Parses ``hive-site.xml`` and ``metastore-site.xml`` into their properties, as found."""

from __future__ import annotations

from xml.parsers import expat

from compactor.base.errors import BadSetting


def parse_site(text: str | bytes) -> dict[str, str]:
    """Returns the ``<value>`` of every ``<property>`` by ``<name>``; the last one wins.

    ``<final>`` is ignored, since it has no meaning for a single file, and ``${...}`` is not resolved. Nothing outside the
    text is read: a document type with entities is refused.

    Raises:
        BadSetting: the text is not XML in Hadoop's form, or declares entities.
    """
    reader = _SiteReader()
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as error:
        raise BadSetting(
            f"Hadoop configuration file: not well-formed XML ({error}); expected <configuration>"
        ) from None
    return reader.properties


class _SiteReader:
    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self._path: list[str] = []
        self._texts: dict[str, list[str]] = {}
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._entity

    def _start(self, tag: str, _attributes: dict[str, str]) -> None:
        if not self._path and tag != "configuration":
            raise BadSetting(f"Hadoop configuration file: root element is <{tag}>, expected <configuration>")
        self._path.append(tag)
        if self._path == ["configuration", "property"]:
            self._texts = {}
        elif len(self._path) == 3:
            self._texts[tag] = []

    def _characters(self, text: str) -> None:
        if len(self._path) == 3:
            self._texts[self._path[2]].append(text)

    def _end(self, _tag: str) -> None:
        if self._path == ["configuration", "property"] and "name" in self._texts and "value" in self._texts:
            self.properties["".join(self._texts["name"]).strip()] = "".join(self._texts["value"])
        self._path.pop()

    def _entity(self, name: str, *_declaration: object) -> None:
        raise BadSetting(f"Hadoop configuration file: declares entity {name!r}; write its text where it is used")
