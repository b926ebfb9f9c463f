"""The text of a ``hive-site.xml`` or ``metastore-site.xml`` -> its properties, as found."""

from __future__ import annotations

from xml.parsers import expat

from compactor.errors import BadSetting


def parse_site(text: str | bytes) -> dict[str, str]:
    """``<name>`` -> ``<value>`` of every ``<property>``; of two with one name the later one.

    ``<final>`` says nothing about a file that is read alone and is left out; ``${...}`` stays as it stands. Nothing
    outside the text is read: a document type with entities of its own is refused.

    Raises:
        BadSetting: the text is not XML of Hadoop's form, or declares entities.
    """
    reader = _Reader()
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as error:
        raise BadSetting(f"Hadoop configuration file: not well-formed XML ({error}); wanted <configuration>") from None
    return reader.properties


class _Reader:
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
            raise BadSetting(f"Hadoop configuration file: root element is <{tag}>, wanted <configuration>")
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
