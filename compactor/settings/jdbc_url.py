"""Converts the JDBC URL of a ``hive-site.xml`` to the URL that reaches the same database from Python.

Every option of the URL is converted, is known not to matter, or is refused by name. An option that was dropped silently
could be the one that keeps the connection encrypted.

The options are those of pgjdbc's ``PGProperty`` and ``LibPQFactory``, of Connector/J's ``PropertyDefinitions`` and its
reference of ``sslMode``, of MariaDB Connector/J's ``Configuration`` and, for older releases, its ``DefaultOptions``.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import parse_qsl, quote, unquote, urlencode

from compactor.base.errors import BadSetting

_YES = ("", "true", "yes", "1")  #: a parameter without a value is on
CONNECTION_URL = "javax.jdo.option.ConnectionURL"
_JKS = "a Java key store cannot be read here: export it as PEM (`keytool -exportcert -rfc`), and name that file as {} in url"

#: Options of PostgreSQL's driver that go to libpq as they are, by its name for them.
_POSTGRES: Mapping[str, str] = {
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "channelbinding": "channel_binding",
    "requireauth": "require_auth",
    "kerberosservername": "krbsrvname",
    "sslnegotiation": "sslnegotiation",
    "service": "service",
}
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_TARGETS = {
    "any": "any",
    "master": "primary",
    "primary": "primary",
    "slave": "standby",
    "secondary": "standby",
    "preferslave": "prefer-standby",
    "prefersecondary": "prefer-standby",
}
#: Options that affect neither the server, nor how it is authenticated, nor the data: only how the Java driver works.
_HARMLESS = {
    "postgresql": """adaptivefetch adaptivefetchmaximum adaptivefetchminimum allowencodingchanges applicationname
        assumeminserverversion autosave binarytransfer binarytransferdisable binarytransferenable cancelsignaltimeout charset
        cleanupsavepoints compatible connecttimeout databasemetadatacachefields databasemetadatacachefieldsmib
        defaultrowfetchsize disablecolumnsanitiser escapesyntaxcallmode groupstartupparameters hideunprivilegedobjects
        hostrecheckseconds jaasapplicationname jaaslogin loadbalancehosts localsocketaddress logservererrordetail
        loggerfile loggerlevel logintimeout loglevel logunclosedconnections maxresultbuffer maxsendbuffersize
        preferquerymode preparedstatementcachequeries preparedstatementcachesizemib preparethreshold protocolversion
        quotereturningidentifiers receivebuffersize rewritebatchedinserts sendbuffersize sockettimeout sslresponsetimeout
        stringtype tcpkeepalive tcpnodelay unknownlength usespnego xmlfactoryfactory""",
    "mysql": """allowloadlocalinfile allowmultiqueries allowpublickeyretrieval autoreconnect autoreconnectforpools
        cachecallablestmts cachedefaulttimezone cacheprepstmts cacheresultsetmetadata cacheserverconfiguration
        characterencoding charactersetresults clobcharacterencoding connectioncollation connectiontimezone
        connectoptions connecttimeout createdatabaseifnotexist defaultfetchsize dontTrackOpenResources elidesetautocommits
        emulateunsupportedpstmts failoverreadonly forceconnectiontimezonetosession initialtimeout interactiveclient
        jdbccomplianttruncation logger maintaintimestats maxreconnects nodatetimestringsync noaccesstoprocedurebodies
        nullcatalogmeanscurrent nullnamepatternmatchesall passwordcharacterencoding permitmysqlscheme pool
        prepstmtcachesize prepstmtcachesqllimit preserveinstants profilesql rewritebatchedstatements servertimezone
        sockettimeout tcpkeepalive tcpnodelay tinyint1isbit transformedbitisboolean usebulkstmts useaffectedrows
        useblobtostoreutf8outsidebmp usecompression usecursorfetch usejdbccomplianttimezoneshift
        uselegacydatetimecode uselocalsessionstate uselocaltransactionstate useoldaliasmetadatabehavior
        useserverprepstmts usetimezone useunicode useunbufferedinput useinformationschema yearisdatetype
        zerodatetimebehavior""",
}
_HARMLESS_OF = {
    "postgresql": frozenset(_HARMLESS["postgresql"].lower().split()),
    "mysql": frozenset(_HARMLESS["mysql"].lower().split()),
    "mariadb": frozenset(_HARMLESS["mysql"].lower().split()),
}
_TLS_VERSIONS = frozenset({"tlsv1.2", "tlsv1.3"})


@dataclass(slots=True)
class JdbcOptions:
    """The options of one URL that are not handled yet, by their names in lower case."""

    kind: str
    unhandled: dict[str, str] = field(default_factory=dict, repr=False)
    _spelling: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_pairs(cls, kind: str, pairs: Iterable[tuple[str, str]]) -> JdbcOptions:
        """Collects the options; a name may occur twice with the same value.

        Raises:
            BadSetting: an option occurs twice, with different values.
        """
        options = cls(kind)
        for name, value in pairs:
            key = name.strip().lower()
            if options.unhandled.setdefault(key, value) != value:
                raise _refusal(name, "it occurs twice with different values; remove one")
            options._spelling[key] = name
        return options

    def take(self, *names: str) -> str | None:
        """Removes all options of these names and returns the value of the first; None without any."""
        values = [self.unhandled.pop(name.lower(), None) for name in names]
        return next((value.strip() for value in values if value is not None), None)

    def flag(self, *names: str) -> bool | None:
        """Removes all options of these names and returns the first as a boolean; None without any."""
        value = self.take(*names)
        return None if value is None else value.lower() in _YES

    def refuse(self, why: str, *names: str) -> None:
        """Refuses these options.

        Raises:
            BadSetting: one of them is set.
        """
        for name in names:
            if name.lower() in self.unhandled:
                raise _refusal(name, why)

    def must_be_done(self) -> None:
        """Refuses the options that nothing has handled.

        Raises:
            BadSetting: names the first one, without its value.
        """
        for name in sorted(self.unhandled.keys() - _HARMLESS_OF[self.kind]):
            raise _refusal(self._spelling[name], "it is unknown here; remove it, or set url in compactor.toml")


def _refusal(name: str, why: str) -> BadSetting:
    return BadSetting(f"JDBC URL ({CONNECTION_URL}, or url): option {name} cannot be carried over: {why}")


def postgres_options(options: JdbcOptions) -> dict[str, str]:
    """Returns libpq's parameters for the options of PostgreSQL's driver.

    ``JdbcOptions.must_be_done`` checks the other options.

    Raises:
        BadSetting: an option has no counterpart.
    """
    parameters = {ours: value for theirs, ours in _POSTGRES.items() if (value := options.take(theirs))}
    mode = _postgres_ssl_mode(options)
    if mode:
        parameters["sslmode"] = mode
    if parameters.get("sslkey", "").endswith((".p12", ".pfx")):
        raise _refusal("sslkey", "a PKCS-12 file cannot be read here; expected a key in PEM or DER")
    schema, startup = options.take("currentSchema"), options.take("options")
    if schema or startup:
        path = [f"-c search_path={schema.replace(' ', '')}"] if schema else []
        parameters["options"] = " ".join([*([startup] if startup else []), *path])
    target = options.take("targetServerType")
    if target:
        if target.lower() not in _TARGETS:
            raise _refusal("targetServerType", f"expected one of {', '.join(_TARGETS)}")
        parameters["target_session_attrs"] = _TARGETS[target.lower()]
    gss = options.take("gssEncMode")
    if gss:
        if gss.lower() not in ("disable", "prefer", "require"):
            raise _refusal("gssEncMode", "expected disable, prefer or require")
        parameters["gssencmode"] = gss.lower()
    return dict(sorted(parameters.items()))


def _postgres_ssl_mode(options: JdbcOptions) -> str | None:
    """Returns libpq's mode.

    In pgjdbc ``ssl`` alone means ``verify-full``, except with a factory that checks nothing.
    """
    mode, is_on, factory = options.take("sslmode"), options.flag("ssl"), options.take("sslfactory")
    options.refuse("only Java can run it", "sslhostnameverifier", "sslpasswordcallback", "sslfactoryarg")
    checks = not (factory or "").endswith(".NonValidatingFactory")
    if factory and checks and not factory.endswith(".LibPQFactory"):
        raise _refusal("sslfactory", f"only Java can run it; {_JKS.format('sslrootcert')}")
    if mode and mode.lower() not in _SSL_MODES:
        raise _refusal("sslmode", f"expected one of {', '.join(_SSL_MODES)}")
    if mode:
        return mode.lower()
    return ("verify-full" if checks else "require") if is_on else None


def mysql_options(options: JdbcOptions) -> dict[str, str]:
    """Returns PyMySQL's parameters for the options of MySQL's and MariaDB's drivers.

    They are spelled as SQLAlchemy spells them.

    Raises:
        BadSetting: an option has no counterpart.
    """
    _refuse_key_stores(options)
    versions = options.take("tlsVersions", "enabledTLSProtocols", "enabledSslProtocolSuites")
    if versions and not {version.strip().lower() for version in versions.split(",")} <= _TLS_VERSIONS:
        raise _refusal("tlsVersions", "expected TLSv1.2 and TLSv1.3, the only ones used here")
    mode = _mysql_ssl_mode(options)
    authority = _server_certificate(options)
    if mode == "disable":
        return {"ssl_disabled": "true"}
    if mode is None and authority is None:
        return {}
    if mode in ("verify-ca", "verify-full") or authority is not None:
        parameters = {"ssl_check_hostname": "true" if mode == "verify-full" else "false"}
        return parameters | (_system_authorities() if authority is None else {"ssl_ca": authority})
    return {"ssl_check_hostname": "false"}


def _refuse_key_stores(options: JdbcOptions) -> None:
    options.refuse(
        _JKS.format("ssl_ca"),
        "trustCertificateKeyStoreUrl",
        "trustCertificateKeyStoreType",
        "trustCertificateKeyStorePassword",
        "trustStore",
        "trustStorePassword",
        "trustStoreType",
    )
    options.refuse(
        _JKS.format("ssl_cert and ssl_key"),
        "clientCertificateKeyStoreUrl",
        "clientCertificateKeyStoreType",
        "clientCertificateKeyStorePassword",
        "keyStore",
        "keyStorePassword",
        "keyStoreType",
        "keyPassword",
    )


_MYSQL_MODES = {
    "disabled": "disable",
    "disable": "disable",
    "preferred": "prefer",
    "required": "require",
    "trust": "require",
    "verify_ca": "verify-ca",
    "verify-ca": "verify-ca",
    "verify_identity": "verify-full",
    "verify-full": "verify-full",
}


def _mysql_ssl_mode(options: JdbcOptions) -> str | None:
    """Returns a mode in libpq's words; None leaves it to the driver, which encrypts where the server can.

    Any older option that asks for encryption or a check counts, since drivers and releases differ in their defaults.
    """
    explicit = options.take("sslMode")
    uses, requires = options.flag("useSSL"), options.flag("requireSSL")
    verifies, trusts = options.flag("verifyServerCertificate"), options.flag("trustServerCertificate")
    any_host = options.flag("disableSslHostnameVerification")
    if explicit is not None:
        if explicit.lower() not in _MYSQL_MODES:
            raise _refusal("sslMode", f"expected one of {', '.join(_MYSQL_MODES)}")
        mode = _MYSQL_MODES[explicit.lower()]
        return None if mode == "prefer" else mode
    if uses is False:
        if requires or verifies:
            raise _refusal("useSSL", "it is false, but another option requires encryption; remove one of them")
        return "disable"
    if verifies or (uses and options.kind == "mariadb" and not trusts):
        return "verify-full" if options.kind == "mariadb" and not any_host else "verify-ca"
    return "require" if uses or requires or trusts else None


def _server_certificate(options: JdbcOptions) -> str | None:
    """Returns the path of the certificate that the server has to show, or of the authority that signed it."""
    path = options.take("serverSslCert")
    if not path:
        return None
    path = path.removeprefix("file://")
    if not path.startswith("/"):
        raise _refusal("serverSslCert", "expected the absolute path of a file in PEM, which is also read here")
    return path


def _system_authorities() -> dict[str, str]:
    """Returns the file or folder of the authorities that this machine trusts, in place of Java's list."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        return {"ssl_ca": paths.cafile}
    if paths.capath:
        return {"ssl_capath": paths.capath}
    raise _refusal("sslMode", "this machine has no list of authorities; name the file of the server's as serverSslCert")


_SCHEMES = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
_OPTIONS: Mapping[str, Callable[[JdbcOptions], dict[str, str]]] = MappingProxyType(
    {"postgresql": postgres_options, "mysql": mysql_options, "mariadb": mysql_options}
)
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_EXPECTED = "expected: jdbc:postgresql://…, jdbc:mysql://… or jdbc:mariadb://…, or url in compactor.toml"


def is_jdbc(url: str) -> bool:
    """Returns true if ``url`` is one of Java's."""
    return url.strip().lower().startswith("jdbc:")


def convert_url(jdbc: str, user: str | None, source: str = CONNECTION_URL) -> str:
    """Converts ``jdbc:postgresql://h:5432/hive``; the result has a password only if the JDBC URL has one.

    Args:
        source: the setting that has the JDBC URL, for messages.

    Raises:
        BadSetting: not a JDBC URL of PostgreSQL, MySQL or MariaDB, or an option cannot be carried over. The message does
            not contain the values of options.
    """
    kind, _, rest = jdbc.strip().removeprefix("jdbc:").partition(":")
    if not jdbc.strip().startswith("jdbc:") or kind not in _SCHEMES or not rest.startswith("//"):
        raise BadSetting(f"{source} is for {_describe_kind(jdbc)}; {_EXPECTED}")
    place, _, query = rest.partition("?")
    hosts, slash, database = place[2:].partition("/")
    if not all(_HOST.fullmatch(host) for host in hosts.split(",")) or not slash or "?" in unquote(database):
        raise BadSetting(
            f"{source}: the host of the {kind} URL cannot be read; expected a name or address, with "
            "or without a port, and a database"
        )
    options = JdbcOptions.from_pairs(kind, parse_qsl(query, keep_blank_values=True))
    who, password = options.take("user"), options.take("password")
    taken = _OPTIONS[kind](options)
    options.must_be_done()
    several = hosts.split(",") if "," in hosts else []
    if several and kind != "postgresql":
        raise BadSetting(f"{source}: names several hosts, and Compactor connects to one; set url in compactor.toml")
    login = ":".join(quote(text, safe="") for text in (user or who, password) if text) if user or who else ""
    parameters = [*(("host", host if ":" in host else f"{host}:5432") for host in several), *taken.items()]
    prefix = f"{login}@" if login else ""
    where = "" if several else hosts
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"{_SCHEMES[kind]}://{prefix}{where}/{unquote(database)}{query}"


def _describe_kind(jdbc: str) -> str:
    """Returns the part of another URL that is safe to show.

    Oracle's URL has user and password before the host.
    """
    match = re.match(r"\s*jdbc:([a-z0-9]+(?::thin|:oci)?)(?=:)", jdbc)
    return f"'jdbc:{match[1]}:…'" if match else "something else"
