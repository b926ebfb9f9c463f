"""Finds and hides secrets: by the names of their keys, by their form, and by configured values.

All output goes through here: messages, logs, JSON, tables, HTTP answers, rows of our state. Rows of users' tables do not:
everybody who may read the table may see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

HIDDEN = "***"
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")  # fs.s3a.secretKey -> fs s3a secret Key
_SECRET_NAME = re.compile(
    r"passw|pwd|pswd|passphrase|passcode|passkey|secret|token|credential|creds|delegation|signature|apikey|accesskey"
    r"|privatekey|accountkey|masterkey"
    r"|\b(?:sig|sas|psk|jwt|bearer|authorization|cookie|cookies)\b"
    r"|\b(?:api|access|account|private|encryption|signing|session|shared|storage|fernet|master|license|hmac|pass|app"
    r"|application|consumer|client) keys?\b"
    r"|(?<!by)(?<!com)pass$|pw$|auth$"
)
#: The last word of names such as ``password.file`` and ``credentials.provider``, whose values say where a secret is.
_WHERE = frozenset(
    [
        "alias",
        "class",
        "dir",
        "enabled",
        "file",
        "files",
        "interval",
        "length",
        "lifetime",
        "location",
        "name",
        "path",
        "paths",
        "provider",
        "providers",
        "timeout",
        "type",
        "url",
    ]
)
_LEAST_REMEMBERED = 8  #: characters; a shorter text is part of too many others
_DATABASES = "postgres(?:ql)?|mysql|mariadb|oracle|mssql|sqlserver|db2|mongodb|redis|amqps?"
#: Names that a value follows, each with a text that whatever has this form contains, and the value, whose last group counts.
_NAMED = tuple(
    (part, re.compile(name), re.compile(value))
    for part, name, value in (
        # password=…, password := …, -Djavax.net.ssl.keyStorePassword=…, fs.s3a.secret.key = '…'; not the directory …/token=5
        (
            "=",
            r"(?<![\w/%.-])(?:-D|--)?(?P<name>[\w.-]+)[\"']?\s*:?=>?\s*",
            r"\"([^\"]+)\"|'([^']+)'|([^\s&;,'\")][^\s&;,)]*)",
        ),
        # "password": "…" of JSON and of JSON within it, <name>…</name><value>…</value> of Hadoop, --password … of a command
        (":", r"[\"'](?P<name>[\w.-]+)\\*[\"']\s*:\s*", r"b?\\*\"([^\"\\]+)|b?'([^']+)'"),
        # ('spark.authenticate.secret', '…') of Python
        ("', ", r"\([\"'](?P<name>[\w.-]+)[\"'],\s*", r"\"([^\"]+)\"|'([^']+)'"),
        # key=my.password, value=…; {"name": "MY_PASSWORD", "value": "…"}; <property name="my.password" value="…"/>
        (
            "value",
            r"\b(?:key|name|property)\\*[\"']?\s*[:=]\s*\\*[\"']?(?P<name>[\w.-]+)\\*[\"']?[\s,]+\\*[\"']?value\\*[\"']?\s*[:=]\s*",
            r"\\*\"([^\"\\]+)|'([^']+)'|([^\s,;)}\"'\\]+)",
        ),
        # X-Auth-Token: … of a header, passphrase: … of YAML; not a sentence about a password or its file
        (":", r"(?<![\w/.-])(?P<name>\w[\w.-]*): *", r"(?=\S*\d)([^\s,;\"'/][^\s,;\"']{7,})"),
        (
            "<value>",
            r"<name>(?P<name>[^<]+)</name>\s*(?:<(?:description|final|source)>[^<]*</\w+>\s*)*<value>",
            r"([^<]+)",
        ),
        ("</", r"<(?P<name>[\w.:-]+)(?:\s[^<>]*)?>\s*(?:<!\[CDATA\[)?", r"([^<]+)</"),
        ("--", r"(?<!\S)--(?P<name>[\w-]+)\s+", r"([^\s-]\S*)"),
    )
)
#: Forms of secrets that need no name, each with a text that whatever has this form contains. The group is the secret.
_FORMS = tuple(
    (part, re.compile(form))
    for part, form in (
        # s3a://KEY:SECRET@bucket, postgresql://hive%3Apassword@host; a number before a path is a port
        ("@", r"\b[A-Za-z][\w+.-]*://[^\s/@:?#%]*(?::|%3[aA])(?!\d{1,5}(?:[/?#]|$))([^\s<>]+)@"),
        # hive:password@host, without a scheme
        ("@", r"(?<![\w/:.@%-])[\w.+-]+:([^\s/:@'\"]+)@(?=[\w\[])"),
        # https://TOKEN@host
        ("@", r"\b(?:https?|ftps?)://([^\s/@<>]+)@"),
        # jdbc:oracle:thin:hive/password@host, mysql://hive/password@host
        (
            "@",
            rf"\b(?i:{_DATABASES})(?:\+\w+)?(?::\w+)?:(?://|(?!/))[^\s:/@%]+(?:[:/]|%3[aA]|%2[fF])"
            r"(?!\d{1,5}(?:[/?]|$))([^\s<>]+)@",
        ),
        ("key=", r"[?&]key=([^\s&'\")]+)"),
        ("uthorization", r"(?i:authorization)[\"']?\s*[:=]\s*[\"']?\w+\s+([^\s\"']{8,})"),
        # Cookie: hadoop.auth="u=…&s=…"; Path=/
        ("ookie", r"(?i:\bcookie)[\"']?\s*[:=]\s*[\"']?([\w.-]+=(?:\"[^\"]*\"|[^\r\n'\"])+)"),
        ("earer ", r"\b(?i:bearer) +([\w.~+/=-]{16,})"),
        # tokens of Google, Databricks, HashiCorp Vault, GitHub, GitLab and Slack
        ("AIza", r"\b(AIza[\w-]{35})"),
        ("ya29.", r"\b(ya29\.[\w-]{16,})"),
        ("dapi", r"\b(dapi[0-9a-f]{32})"),
        ("hvs.", r"\b(hvs\.[\w-]{16,})"),
        ("gh", r"\b(gh[oprsu]_\w{30,})"),
        ("glpat-", r"\b(glpat-[\w-]{16,})"),
        ("xox", r"\b(xox[abeprs]-[\w-]{8,})"),
        # keys of AWS, JSON Web Tokens, private keys, keytabs in base 64
        ("AKIA", r"\b(AKIA[0-9A-Z]{16})\b"),
        ("ASIA", r"\b(ASIA[0-9A-Z]{16})\b"),
        ("eyJ", r"\b(eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"),
        ("PRIVATE KEY", r"-----BEGIN [A-Z ]*PRIVATE KEY-----((?s:.+?))(?:-----END|\Z)"),
        ("BQI", r"\b(BQI[A-Za-z0-9+/]{40,}={0,2})"),
    )
)
#: Keys of JSON and columns whose texts are names: ``token=5`` is a partition there.
_NAMES = re.compile(r"partition|location|path|entity|directory|(?:^|_)name$")
_remembered: list[str] = []  #: the longest first


def is_secret(key: str, value: str) -> bool:
    """Returns true if ``value`` of the setting, property or option ``key`` may not be shown as it is."""
    return redact_value(key, value) != value


def redact_value(key: str, value: str) -> str:
    """Returns ``value`` of ``key`` as it may be shown."""
    return HIDDEN if value and is_secret_key(key) else redact(value)


def is_secret_key(key: str) -> bool:
    """Returns true if the name of a setting, property, option or environment variable is that of a secret."""
    words = [word.lower() for word in _WORD.findall(key)]
    return bool(words) and words[-1] not in _WHERE and _SECRET_NAME.search(" ".join(words)) is not None


def redact(text: str) -> str:
    """Returns ``text`` with ``***`` for each secret in it."""
    for secret in _remembered:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    parts, done = [], 0
    for start, end in sorted(_spans(text)):
        if end > done:
            parts += [text[done:start], HIDDEN] if start >= done else []
            done = end
    return "".join((*parts, text[done:])) if parts else text


def find_secrets(text: str) -> tuple[str, ...]:
    """Returns the secrets in ``text``, the longest first.

    Each is returned as it is written, and as it reads without escapes of URLs.
    """
    secrets = {text[start:end] for start, end in _spans(text)}
    secrets |= {unquote(secret) for secret in secrets}
    return tuple(sorted(secrets - {HIDDEN}, key=len, reverse=True))


def redact_plain(value: Any, key: str = "") -> Any:
    """Returns a copy of plain values, as JSON has them, without secrets.

    ``key`` is the name of the value.

    A row ``{"key": "my.password", "value": "…"}`` counts as an entry ``my.password``. So does one with ``name`` or
    ``property`` in the place of ``key``.
    """
    if isinstance(value, str):
        if is_secret_key(key) and value:
            return HIDDEN
        return value if _NAMES.search(key) and "://" not in value else redact(value)
    if isinstance(value, Mapping):
        named = value.get("key") or value.get("property") or value.get("name")
        return {
            name: redact_plain(part, named if name == "value" and isinstance(named, str) else f"{name}")
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_plain(part, key) for part in value]
    return value


def remember(*secrets: str) -> None:
    """Hides these texts from now on, wherever they are.

    Short texts and plain words are not hidden, because they occur in other texts.
    """
    for secret in secrets:
        if len(secret) >= _LEAST_REMEMBERED and not secret.isalpha() and secret not in _remembered:
            _remembered.append(secret)
            _remembered.sort(key=len, reverse=True)


def list_remembered() -> tuple[str, ...]:
    """Returns the texts that ``remember`` hides."""
    return tuple(_remembered)


def remember_secrets(value: Any, key: str = "") -> None:
    """Remembers each secret in plain values, as TOML and JSON have them."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            remember_secrets(part, f"{name}")
    elif isinstance(value, list | tuple):
        for part in value:
            remember_secrets(part, key)
    elif isinstance(value, str):
        remember(*([value] if is_secret_key(key) else find_secrets(value)))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields where secrets begin and end."""
    for part, form in _FORMS:
        if part in text:
            yield from (match.span(1) for match in form.finditer(text))
    for part, name, value in _NAMED:
        end = 0
        for match in name.finditer(text) if part in text else ():
            if match.start() < end or not is_secret_key(match["name"]):
                continue
            if (secret := value.match(text, match.end())) is not None:
                yield secret.span(secret.lastindex or 0)
                end = secret.end()
