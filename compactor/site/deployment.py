"""Reads the configuration and opens the stores: the only place that wires them together.

Order: flag > environment > compactor.toml (or an Airflow connection, given as flags) > hive-site.xml and
metastore-site.xml as found > default. The environment only configures the connection.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from compactor.base.errors import BadSetting
from compactor.base.private_files import CLIENT_KEYTAB, client_keytab, decode_configuration, read_unnamed_configuration
from compactor.base.redaction import find_secrets, remember, remember_secrets
from compactor.compaction.pool_policy import PoolPolicy, parse_policy
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.transactions.open_limits import TxnLimits
from compactor.settings.compactor_toml import MetastoreProfile, Profile, files_of_properties, parse_profile
from compactor.settings.file_limits import FileLimits
from compactor.settings.hive_site import parse_site
from compactor.settings.jdbc_url import convert_url, is_jdbc
from compactor.settings.precedence import Layer, Settings
from compactor.site.connection import PASSWORD_FILE, STORE_PASSWORD_FILE, credential_stores, metastore_url
from compactor.site.mark_files import MarkFiles
from compactor.site.mode import Mode, loosest_mode
from compactor.site.other_metastores import OtherMetastore, OtherMetastores
from compactor.site.site import HISTORY_BY_WRITE_IDS, Site
from compactor.site.spark_secrets import SPARK_KEYTABS
from compactor.state.state_database import open_state
from compactor.storage.build_listing import ListingLimits
from compactor.storage.hadoop_tokens import VARIABLE as TOKEN_FILE
from compactor.storage.protocol import Storage
from compactor.storage.store_options import StoreOptions, secret_files
from compactor.storage.stores import Stores

log = logging.getLogger(__name__)
CONFIG = "compactor.toml"  #: the file that is read from the current directory if none is named
SITE_FILES = ("hive-site.xml", "metastore-site.xml")
#: Hive's own properties that name the stores of a site: credentials may go there.
_NAMING_PLACES = (
    "fs.defaultFS",
    "hive.metastore.warehouse.dir",
    "metastore.warehouse.dir",
    "hive.metastore.warehouse.external.dir",
    "metastore.warehouse.external.dir",
)
AIRFLOW_KEYTAB = "AIRFLOW__COMPACTOR__KEYTAB"  #: names the keytab of applications that Airflow's tasks start
OTHERS = "COMPACTOR_OTHER_METASTORES"  #: set by Airflow's tasks for the drivers that they start
_ENVIRONMENT = {
    "url": "COMPACTOR_METASTORE_URL",
    "state_url": "COMPACTOR_STATE_URL",
    "warehouse": "COMPACTOR_WAREHOUSE",
    "hive_conf": "COMPACTOR_HIVE_CONF",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configuration of one metastore; nothing is open yet.

    URLs may hold passwords: never print them whole.
    """

    name: str
    url: str
    state_url: str | None
    warehouse: str | None
    settings: Settings
    stores: StoreOptions = field(default_factory=StoreOptions)
    pools: Mapping[str, PoolPolicy] = field(default_factory=dict)
    others: Sequence[OtherMetastore] = ()  #: that the same configuration names: their tables lie elsewhere
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  #: the properties of Iceberg catalogs

    @property
    def is_embedded(self) -> bool:
        """True if the metastore is the SQLite file that Compactor itself creates."""
        return self.url.startswith("sqlite")

    @property
    def own_state_url(self) -> str | None:
        """The URL of our own state.

        Returns None if nothing may be stored: mode observe without a database for the state.
        """
        if self.state_url is not None:
            return self.state_url
        return None if loosest_mode(self.settings) is Mode.OBSERVE else self.url


def configure(
    name: str = "default",
    *,
    flags: Mapping[str, str] | None = None,
    config_path: str | None = None,
    environment: Mapping[str, str] | None = None,
    others: Mapping[str, Callable[[], Mapping[str, str]]] | None = None,
) -> Configuration:
    """Returns the configuration of the metastore ``name``.

    Args:
        flags: settings by key (``--set``), and ``url``, ``state_url``, ``warehouse``, ``hive_conf`` for the connection.
        config_path: of a compactor.toml; else COMPACTOR_CONFIG, else ``compactor.toml`` in the current directory if any.
        others: functions that return the ``flags`` of other metastores, by name; called when one is opened.

    Raises:
        BadSetting: no database is configured, a file cannot be read, or a key or value in it is unknown.
    """
    environment = os.environ if environment is None else environment
    flag_values = dict(flags or {})
    document = _profile(config_path or environment.get("COMPACTOR_CONFIG"))
    profile = document.metastore(name)
    connection = _connection(flag_values, environment)
    site_layers = tuple(_site_layers(connection["hive_conf"] or profile.hive_conf))
    in_site_files = _merge(site_layers)
    url = metastore_url(
        connection["url"] or profile.url,
        password_file=profile.password_file,
        site=in_site_files,
        environment=environment,
    )
    if not url:
        raise BadSetting(
            f"metastore {name!r}: no database is configured; set COMPACTOR_METASTORE_URL, or url under [metastore.{name}] "
            "in compactor.toml, or COMPACTOR_HIVE_CONF to a folder whose hive-site.xml names it"
        )
    state_url = connection["state_url"] or profile.state_url
    if state_url is not None and is_jdbc(state_url):
        state_url = convert_url(state_url, None, "state_url")
    remember(*find_secrets(url), *find_secrets(state_url or ""))
    remember_secrets([in_site_files, document.storage, document.catalogs, profile.values, flag_values])
    layers = [
        Layer(name="default", values={"compactor.mode": "clean"} if url.startswith("sqlite") else {}),
        *site_layers,
        Layer(name="compactor.toml", values=profile.values),
        Layer(name="flag", values=flag_values),
    ]
    settings, warehouse = Settings.of(layers, profile.database_modes), connection["warehouse"] or profile.warehouse
    return Configuration(
        name=name,
        url=url,
        state_url=state_url,
        warehouse=warehouse,
        settings=settings,
        stores=_store_options(document, settings, warehouse, in_site_files),
        pools={
            pool: parse_policy(pool, table, f"compactor.toml [metastore.{name}.pool.{pool}]")
            for pool, table in profile.pools.items()
        },
        others=_others(name, document, environment, others or {}),
        catalogs=document.catalogs,
    )


def _others(
    name: str,
    document: Profile,
    environment: Mapping[str, str],
    connections: Mapping[str, Callable[[], Mapping[str, str]]],
) -> list[OtherMetastore]:
    """Returns the other metastores of ``document``, of COMPACTOR_OTHER_METASTORES and of ``connections``."""
    passed_on = _read_passed_on(environment)

    def locate(other: str) -> str | None:
        values = dict(passed_on.get(other, {}))
        if other in connections:
            values |= connections[other]()
        profile = document.metastores.get(other) or MetastoreProfile(name=other)
        in_site_files = _merge(tuple(_site_layers(values.get("hive_conf") or profile.hive_conf)))
        url = values.get("url") or profile.url
        return metastore_url(url, password_file=profile.password_file, site=in_site_files, environment={})

    names = dict.fromkeys([*document.metastores, *passed_on, *connections])
    return [OtherMetastore(name=other, locate=partial(locate, other)) for other in names if other != name]


def _read_passed_on(environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns ``url`` and ``hive_conf`` of each other metastore that the environment passes on."""
    text = environment.get(OTHERS)
    if not text:
        return {}
    try:
        return {str(name): {str(key): str(value) for key, value in of.items()} for name, of in json.loads(text).items()}
    except (ValueError, AttributeError, RecursionError):
        raise BadSetting(f"{OTHERS}: wanted a JSON object of objects, by the name of each other metastore") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedFile:
    """A file of a metastore's configuration: a secret, or a file that others must not change."""

    path: Path
    what: str
    is_secret: bool = False
    by_directory: bool = False  #: others may have the right to read it if a directory above keeps them out


def used_files(
    name: str = "default",
    *,
    flags: Mapping[str, str] | None = None,
    config_path: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[UsedFile]:
    """Returns the files that ``configure`` reads with the same arguments, as far as they can be followed."""
    environment = os.environ if environment is None else environment
    config = config_path or environment.get("COMPACTOR_CONFIG") or CONFIG
    files = [UsedFile(path=Path(config), what="configuration")]
    document, site = Profile(), dict[str, str]()
    with suppress(BadSetting):
        document = _profile(config_path or environment.get("COMPACTOR_CONFIG"))
    profile = document.metastores.get(name) or MetastoreProfile(name=name)
    hive_conf = _connection(dict(flags or {}), environment)["hive_conf"] or profile.hive_conf
    if hive_conf is not None:
        files += [UsedFile(path=Path(hive_conf, file), what="configuration") for file in SITE_FILES]
        with suppress(BadSetting):
            site = _merge(tuple(_site_layers(hive_conf)))
    settings = {**site, **profile.values, **(flags or {})}
    others = [other for other in document.metastores.values() if other.name != name]
    secrets = [
        ("password_file", environment.get(PASSWORD_FILE) or profile.password_file),
        *(("credential store", str(path)) for path in credential_stores(site)),
        ("password of the credential store", site.get(STORE_PASSWORD_FILE)),
        ("compactor.reads.token.file", settings.get("compactor.reads.token.file")),
        *((f"password_file of [metastore.{other.name}]", other.password_file) for other in others),
        *((what, str(file)) for table in document.storage.values() for what, file in secret_files(table)),
        *(file for name, table in document.catalogs.items() for file in files_of_properties(name, table)),
        *((key, settings.get(f"compactor.{key}")) for key in SPARK_KEYTABS),
        (TOKEN_FILE, environment.get(TOKEN_FILE)),
        (CLIENT_KEYTAB, client_keytab(environment)),
        (AIRFLOW_KEYTAB, environment.get(AIRFLOW_KEYTAB)),
    ]
    return files + [
        UsedFile(path=Path(path), what=what, is_secret=True, by_directory=what == TOKEN_FILE)
        for what, path in secrets
        if path
    ]


def open_stores(
    name: str = "default",
    *,
    flags: Mapping[str, str] | None = None,
    config_path: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Stores:
    """Returns the stores of ``name`` for commands that read single files.

    The metastore need not be configured.

    See ``configure`` for the arguments.

    Raises:
        BadSetting: a file cannot be read, or a key or value in it is unknown.
    """
    environment = os.environ if environment is None else environment
    flag_values = dict(flags or {})
    document = _profile(config_path or environment.get("COMPACTOR_CONFIG"))
    is_named = name != "default" or name in document.metastores
    profile = document.metastore(name) if is_named else MetastoreProfile(name=name)
    connection = _connection(flag_values, environment)
    site_layers = tuple(_site_layers(connection["hive_conf"] or profile.hive_conf))
    layers = [*site_layers, Layer(name="compactor.toml", values=profile.values), Layer(name="flag", values=flag_values)]
    settings = Settings.of(layers, profile.database_modes)
    warehouse = connection["warehouse"] or profile.warehouse
    return Stores(_store_options(document, settings, warehouse, _merge(site_layers)), _listing_limits(settings))


def _store_options(
    document: Profile, settings: Settings, warehouse: str | None, in_site_files: Mapping[str, str]
) -> StoreOptions:
    of_site = (warehouse, settings.text("compactor.memory"), *map(in_site_files.get, _NAMING_PLACES))
    options = StoreOptions.from_tables(document.storage).naming(of_site)
    return replace(
        options,
        files=FileLimits.from_settings(settings),
        takes_over=settings.boolean("compactor.copy.within.store"),
        default_zone=settings.text("compactor.orc.default.timezone") or None,
    )


def _connection(flag_values: dict[str, str], environment: Mapping[str, str]) -> dict[str, str | None]:
    """Removes the parts of the connection from ``flag_values``; missing parts come from the environment."""
    return {key: flag_values.pop(key, None) or environment.get(_ENVIRONMENT[key]) for key in _ENVIRONMENT}


def _merge(layers: Sequence[Layer]) -> dict[str, str]:
    return {key: value for layer in layers for key, value in layer.values.items()}


def _profile(path: str | None) -> Profile:
    if path is None:
        if not os.path.lexists(CONFIG):
            log.info("configuration: no file is named, and there is no %s in the current directory", CONFIG)
            return Profile()
        text = read_unnamed_configuration(Path(CONFIG))
        log.info("configuration: %s, found in the current directory", os.path.abspath(CONFIG))
        return parse_profile(text)
    try:
        text = decode_configuration(Path(path).read_bytes(), Path(path))
    except OSError as error:
        raise BadSetting(f"{path}: cannot be read: {error.strerror}") from error
    log.info("configuration: %s, as it was named", path)
    return parse_profile(text)


def _site_layers(hive_conf: str | None) -> Iterator[Layer]:
    if hive_conf is None:
        return
    folder = Path(hive_conf)
    if not folder.is_dir():
        raise BadSetting(f"hive_conf {hive_conf!r}: expected a directory with {' or '.join(SITE_FILES)}")
    for file in SITE_FILES:
        if (folder / file).is_file():
            log.info("configuration: %s", folder / file)
            yield Layer(name=file, values=parse_site((folder / file).read_bytes()))


@contextmanager
def open_deployment(
    metastore: str = "default", *, flags: Mapping[str, str] | None = None, config_path: str | None = None
) -> Iterator[Site]:
    """Opens the site of a metastore until the block ends; in mode observe its database is read-only.

    Raises:
        BadSetting: the configuration is wrong.
        DatabaseUnavailable: a database cannot be reached, or has no schema.
        NotSupported: the database or its schema is of a kind that this release does not know.
    """
    configuration = configure(metastore, flags=flags, config_path=config_path)
    with open_site(configuration) as site:
        yield site


def _limits(settings: Settings) -> TxnLimits:
    is_written = settings.source(HISTORY_BY_WRITE_IDS) != "default"
    return TxnLimits(
        max_open=settings.integer("hive.max.open.txns"),
        counted_each_ms=settings.milliseconds("hive.count.open.txns.interval"),
        max_batch=settings.integer("hive.txn.max.open.batch"),
        open_timeout_ms=settings.milliseconds("hive.txn.opentxn.timeout"),
        min_history_level=settings.boolean("hive.txn.use.minhistorylevel"),
        min_history_write_id=settings.boolean(HISTORY_BY_WRITE_IDS) if is_written else None,
    )


def stores_of(configuration: Configuration) -> Stores:
    """Returns the stores of ``configuration``; each is opened when it is first used."""
    return Stores(configuration.stores, _listing_limits(configuration.settings))


def _listing_limits(settings: Settings) -> ListingLimits:
    return ListingLimits(
        entries=settings.integer("compactor.listing.entries"), depth=settings.integer("compactor.listing.depth")
    )


@contextmanager
def open_site(configuration: Configuration, *, read_only: bool = False) -> Iterator[Site]:
    """Opens the stores of ``configuration`` until the block ends; read-only in mode observe or on request."""
    store = open_metastore(
        configuration.name,
        configuration.url,
        read_only=read_only or loosest_mode(configuration.settings) is Mode.OBSERVE,
        retryable=configuration.settings.text("hive.txn.retryable.sqlex.regex"),
        limits=_limits(configuration.settings),
    )
    try:
        state = None
        if configuration.own_state_url is not None:
            state = open_state(configuration.own_state_url, read_only=read_only)
        storage = stores_of(configuration)
        others = OtherMetastores(configuration.others, url=configuration.url, token=store.claim_token)
        try:
            with closing(others):
                yield Site.here(
                    configuration.name,
                    store,
                    state,
                    storage,
                    configuration.settings,
                    configuration.pools,
                    memory_of(configuration, store, storage),
                    others,
                    configuration.catalogs,
                )
        finally:
            if state is not None:
                state.close()
    finally:
        store.close()


def memory_of(configuration: Configuration, store: Metastore, storage: Storage) -> MarkFiles | None:
    """Returns the files of marks outside of the metastore's database (PROTOCOL 11.2).

    Returns None without a place for them.

    Raises:
        BadSetting: ``compactor.memory`` is neither an absolute path nor a URI.
    """
    folder = configuration.settings.text("compactor.memory")
    if folder and not (folder.startswith("/") or ":/" in folder):
        raise BadSetting(
            f"compactor.memory = {folder!r}: wanted an absolute path or a URI, since processes in other directories use it"
        )
    if folder:
        return MarkFiles(storage, folder, configuration.name)
    if configuration.is_embedded:
        path = store.database.path
        return MarkFiles(storage, f"{path}.memory", configuration.name, base=str(path.parent))
    if configuration.warehouse:
        warehouse = configuration.warehouse.rstrip("/")
        return MarkFiles(storage, f"{warehouse}/.compactor/memory", configuration.name, base=warehouse)
    return None
