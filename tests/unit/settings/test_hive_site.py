"""Hadoop's XML as found."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadSetting
from compactor.settings.hive_site import parse_site

SITE = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!-- a comment <property><name>not</name><value>this</value></property> -->
<configuration>
  <property>
    <name> hive.txn.timeout </name>
    <value>300s</value>
    <description>text with &lt;tags&gt; and a nested <b>bold</b> word</description>
  </property>
  <property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:mysql://h/db?a=1&amp;b=2</value><final>true</final></property>
  <property><name>dir</name><value>${system:java.io.tmpdir}/${user.name}</value></property>
  <property><name>twice</name><value>1</value></property>
  <property><name>twice</name><value>2</value></property>
  <property><name>cdata</name><value><![CDATA[a < b]]></value></property>
  <property><name>empty</name><value/></property>
  <property><name>no value</name></property>
  <property><value>no name</value></property>
</configuration>
"""


def test_properties() -> None:
    assert parse_site(SITE) == {
        "hive.txn.timeout": "300s",
        "javax.jdo.option.ConnectionURL": "jdbc:mysql://h/db?a=1&b=2",
        "dir": "${system:java.io.tmpdir}/${user.name}",
        "twice": "2",
        "cdata": "a < b",
        "empty": "",
    }


def test_bytes_in_their_own_encoding() -> None:
    text = (
        '<?xml version="1.0" encoding="ISO-8859-1"?><configuration><property><name>k</name><value>ü</value></property>'
    )
    assert parse_site((text + "</configuration>").encode("latin-1")) == {"k": "ü"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not well-formed"),
        ("<configuration>", "not well-formed"),
        ("<html/>", "root element is <html>"),
        ("<configuration/><configuration/>", "not well-formed"),
    ],
)
def test_xml_that_is_not_in_hadoops_form_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadSetting, match=reason):
        parse_site(text)


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;">',
        '<!ENTITY file SYSTEM "file:///etc/passwd">',
        '<!ENTITY % p SYSTEM "http://example.invalid/x.dtd">',
    ],
)
def test_entities_are_refused(declaration: str) -> None:
    """No other file is read, and a small text cannot expand to gigabytes."""
    text = f"<!DOCTYPE configuration [{declaration}]><configuration/>"
    with pytest.raises(BadSetting, match="declares entity"):
        parse_site(text)


@given(st.text(max_size=60))
def test_any_site_file_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(BadSetting):
        parsed = parse_site(f"<configuration><property><name>{text}</name><value>1</value></property></configuration>")
        assert list(parsed.values()) == ["1"]
