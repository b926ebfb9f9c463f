"""The options of the JDBC drivers for PostgreSQL, MySQL and MariaDB, as those of psycopg and PyMySQL.

Facts: pgjdbc's ``PGProperty`` and ``LibPQFactory``; Connector/J's ``PropertyDefinitions`` and the reference of ``sslMode``;
MariaDB Connector/J's ``Configuration`` and, for its older releases, ``DefaultOptions``.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from compactor.base.errors import BadSetting

_YES = ("", "true", "yes", "1")  #: a parameter without a value is on
_JKS = (
    "a key store of Java cannot be read here: export it as PEM (`keytool -exportcert -rfc`), and name that as {} in url"
)

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
#: Options that change how the Java driver works, and neither who is reached, how it is proved, nor what is read.
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
    """The options of one URL that have not been understood yet, by their names in lower case."""

    kind: str
    left: dict[str, str] = field(default_factory=dict, repr=False)
    _spelt: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, pairs: Iterable[tuple[str, str]]) -> JdbcOptions:
        """Returns the options; of two of one name, the first counts unless they differ.

        Raises:
            BadSetting: an option is there twice, with two values.
        """
        found = cls(kind)
        for name, value in pairs:
            key = name.strip().lower()
            if found.left.setdefault(key, value) != value:
                raise _refused(name, "it is there twice, with two values; leave one")
            found._spelt[key] = name
        return found

    def take(self, *names: str) -> str | None:
        """Returns the value of the first option of these names; None if there is none."""
        values = [self.left.pop(name.lower(), None) for name in names]
        return next((value.strip() for value in values if value is not None), None)

    def flag(self, *names: str) -> bool | None:
        """Returns the truth of the first option of these names; None if there is none."""
        value = self.take(*names)
        return None if value is None else value.lower() in _YES

    def refuse(self, why: str, *names: str) -> None:
        """Refuses these options.

        Raises:
            BadSetting: one of them is there.
        """
        for name in names:
            if name.lower() in self.left:
                raise _refused(name, why)

    def must_be_done(self) -> None:
        """Refuses whatever has not been understood.

        Raises:
            BadSetting: names the first of it, without its value.
        """
        for name in sorted(self.left.keys() - _HARMLESS_OF[self.kind]):
            raise _refused(self._spelt[name], "it is not known here; remove it, or set url in compactor.toml")


def _refused(name: str, why: str) -> BadSetting:
    return BadSetting(f"javax.jdo.option.ConnectionURL: option {name} cannot be carried over: {why}")


def postgres_options(options: JdbcOptions) -> dict[str, str]:
    """Returns libpq's parameters for the options of PostgreSQL's driver; see ``JdbcOptions.must_be_done`` for the others.

    Raises:
        BadSetting: an option has no counterpart.
    """
    found = {ours: value for theirs, ours in _POSTGRES.items() if (value := options.take(theirs))}
    mode = _postgres_ssl_mode(options)
    if mode:
        found["sslmode"] = mode
    if found.get("sslkey", "").endswith((".p12", ".pfx")):
        raise _refused("sslkey", "a PKCS-12 file cannot be read here; wanted a key in PEM or DER")
    schema, startup = options.take("currentSchema"), options.take("options")
    if schema or startup:
        path = [f"-c search_path={schema.replace(' ', '')}"] if schema else []
        found["options"] = " ".join([*([startup] if startup else []), *path])
    target = options.take("targetServerType")
    if target:
        if target.lower() not in _TARGETS:
            raise _refused("targetServerType", f"wanted one of {', '.join(_TARGETS)}")
        found["target_session_attrs"] = _TARGETS[target.lower()]
    gss = options.take("gssEncMode")
    if gss:
        if gss.lower() not in ("disable", "prefer", "require"):
            raise _refused("gssEncMode", "wanted disable, prefer or require")
        found["gssencmode"] = gss.lower()
    return dict(sorted(found.items()))


def _postgres_ssl_mode(options: JdbcOptions) -> str | None:
    """Returns libpq's mode. In pgjdbc ``ssl`` alone means ``verify-full``, but for one factory, which checks nothing."""
    mode, is_on, factory = options.take("sslmode"), options.flag("ssl"), options.take("sslfactory")
    options.refuse("only Java can run it", "sslhostnameverifier", "sslpasswordcallback", "sslfactoryarg")
    checks = not (factory or "").endswith(".NonValidatingFactory")
    if factory and checks and not factory.endswith(".LibPQFactory"):
        raise _refused("sslfactory", f"only Java can run it; {_JKS.format('sslrootcert')}")
    if mode and mode.lower() not in _SSL_MODES:
        raise _refused("sslmode", f"wanted one of {', '.join(_SSL_MODES)}")
    if mode:
        return mode.lower()
    return ("verify-full" if checks else "require") if is_on else None


def mysql_options(options: JdbcOptions) -> dict[str, str]:
    """Returns PyMySQL's parameters (as SQLAlchemy spells them) for the options of MySQL's and MariaDB's drivers.

    Raises:
        BadSetting: an option has no counterpart.
    """
    _refuse_key_stores(options)
    versions = options.take("tlsVersions", "enabledTLSProtocols", "enabledSslProtocolSuites")
    if versions and not {one.strip().lower() for one in versions.split(",")} <= _TLS_VERSIONS:
        raise _refused("tlsVersions", "wanted TLSv1.2 and TLSv1.3, which are what is used here")
    mode = _mysql_ssl_mode(options)
    authority = _server_certificate(options)
    if mode == "disable":
        return {"ssl_disabled": "true"}
    if mode is None and authority is None:
        return {}
    if mode in ("verify-ca", "verify-full") or authority is not None:
        found = {"ssl_check_hostname": "true" if mode == "verify-full" else "false"}
        return found | (_system_authorities() if authority is None else {"ssl_ca": authority})
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

    Of the older options, each that asks for encryption or a check is one: what drivers and releases take for its default
    differs.
    """
    explicit = options.take("sslMode")
    uses, requires = options.flag("useSSL"), options.flag("requireSSL")
    verifies, trusts = options.flag("verifyServerCertificate"), options.flag("trustServerCertificate")
    any_host = options.flag("disableSslHostnameVerification")
    if explicit is not None:
        if explicit.lower() not in _MYSQL_MODES:
            raise _refused("sslMode", f"wanted one of {', '.join(_MYSQL_MODES)}")
        mode = _MYSQL_MODES[explicit.lower()]
        return None if mode == "prefer" else mode
    if uses is False:
        if requires or verifies:
            raise _refused("useSSL", "it is false, and another option wants encryption; leave one of them")
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
        raise _refused("serverSslCert", "wanted the absolute path of a file in PEM, which is read here as well")
    return path


def _system_authorities() -> dict[str, str]:
    """Returns where this machine keeps the authorities that it trusts, which Java's own list stands for."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        return {"ssl_ca": paths.cafile}
    if paths.capath:
        return {"ssl_capath": paths.capath}
    raise _refused("sslMode", "this machine knows no authorities; name the file of the server's as serverSslCert")
