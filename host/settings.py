"""Settings, read from the environment and drafthouse.toml by this module alone.

Every setting is `DRAFTHOUSE_<NAME>` in the environment or `<name>` in `drafthouse.toml` (in the working directory);
the environment wins. All state is stored under `home`.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from lab.errors import SecretError, SettingsError

#: What comes with Drafthouse: the clone, or the folder of an installed wheel. Nothing is written there.
SHIPPED = Path(__file__).resolve().parents[1]
#: The default: of the working directory, or the one that comes with Drafthouse.
ENGINES_FILE = Path("engines.toml")
ENVIRONMENT_PREFIX = "DRAFTHOUSE_"
SETTINGS_FILE = "drafthouse.toml"
#: Variables with this prefix are not settings: each holds one secret for the worker and is read when it is used.
SECRET_PREFIX = ENVIRONMENT_PREFIX + "SECRET_"
SECRETS_FILE = "secrets.toml"
#: Beside the warehouse's file: where the requests of old runs are.
ARCHIVE_FOLDER = "archive"
#: The longest time limit: timers of the operating system take no endless one.
_A_WEEK_S = 604_800


class Settings(BaseSettings):
    """Paths, addresses, time limits. Units are in the names."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_prefix_target="all",
        toml_file=SETTINGS_FILE,
        extra="forbid",
        frozen=True,
        case_sensitive=False,
    )

    home: Path = Field(default=Path("var"), description="folder of all state")
    engines_dir: Path = Field(default=Path(".engines"), description="folder of the engines' own environments")
    engines_file: Path = Field(
        default=ENGINES_FILE,
        description="file that lists this host's engines; default: the shipped one",
    )
    # `exclude`: secret, may hold a password, or says who people are, so that no run records it
    database_url: str | None = Field(
        default=None, exclude=True, description="URL of the app database; default: SQLite under home"
    )
    database_password_file: Path | None = Field(
        default=None, description="file with the database's password, if its URL has none"
    )
    broker_url: str | None = Field(
        default=None, exclude=True, description="URL of Celery's broker; default: an embedded Valkey under home"
    )
    server: str | None = Field(
        default=None,
        description="address of a lab elsewhere on which `drafthouse` works",
    )
    token: str | None = Field(default=None, exclude=True, repr=False, description="token for the lab elsewhere")
    broker_password_file: Path | None = Field(
        default=None, description="file with the broker's password, if its URL has none"
    )
    home_group: str | None = Field(
        default=None,
        description="group that may read the warehouse's file; default: none",
    )
    policy_file: Path | None = Field(default=None, description="what studies may set; default: policy.toml under home")
    bundles_dir: Path | None = Field(
        default=None, description="folder of the measured runs; default: bundles under home"
    )
    bundles_url: str | None = Field(
        default=None,
        alias="bundles",
        description="object store of the measured runs: s3://bucket/prefix (gs://, az://, file://)",
    )
    datasets_dir: Path | None = Field(
        default=None, description="folder of registered datasets; default: datasets under home"
    )
    workers_elsewhere: bool = Field(
        default=False,
        description="accept studies whose engines and models are only on other hosts",
    )
    allow_metadata_addresses: bool = Field(
        default=False, description="let studies measure servers at link-local or metadata addresses"
    )
    web_host: str = Field(default="127.0.0.1", description="address that the page listens on")
    web_port: int = Field(default=8501, ge=1, le=65535, description="port that the page listens on")
    web_memory_mib: int | None = Field(
        default=None, ge=512, description="memory limit of the page; default: half of the machine's"
    )
    ingester_memory_mib: int | None = Field(
        default=None, ge=512, description="memory limit of the ingester; default: half of the machine's"
    )
    worker_memory_mib: int | None = Field(
        default=None, ge=64, description="memory limit of a worker without engines; default: half of the machine's"
    )
    web_login: Literal["none", "accounts", "token", "oidc"] = Field(
        default="none",
        description="who may open the page: none, token, accounts or oidc (an OpenID provider)",
    )
    web_oidc_issuer: str = Field(default="", description="address of the OpenID provider, as it names itself")
    web_oidc_client_id: str = Field(default="", description="this lab's client id at the OpenID provider")
    web_oidc_client_secret_file: Path | None = Field(
        default=None,
        description="file with this lab's client secret, mode 600",
    )
    web_oidc_name_claim: str = Field(default="email", description="claim that names a user")
    web_oidc_role_claim: str = Field(
        default="",
        description="claim with a user's role; default: `drafthouse user` sets the role",
    )
    web_oidc_new_users: Literal["refused", "viewer", "submitter"] = Field(
        default="refused", description="role of a provider's user at the first sign-in"
    )
    web_oidc_absent_days: int = Field(
        default=30,
        ge=0,
        le=3650,
        description="days without a sign-in after which a user's tokens and shared links pause; 0: never",
    )
    web_public_hosts: str = Field(
        default="",
        description="names by which browsers reach the page, separated by commas; others are refused",
    )
    web_https: bool = Field(
        default=False, description="browsers reach the page by https, and send cookies by https only"
    )
    web_proxies: str = Field(
        default="",
        description="addresses or networks of the proxies before the page, separated by commas",
    )
    web_frame_ancestors: str = Field(
        default="", description="origins whose pages may show this one in a frame, separated by commas"
    )
    web_share_days: int = Field(
        default=90,
        ge=0,
        le=3650,
        description="longest life of a link without a login, in days; 0: none works",
    )
    web_share_by: Literal["everybody", "owners", "administrators"] = Field(
        default="owners",
        description="who may create links without a login: everybody, owners or administrators",
    )
    web_snapshots: int = Field(
        default=3,
        ge=1,
        le=100,
        description="snapshots kept for readers elsewhere, each as large as the warehouse",
    )
    web_workarounds: str = Field(
        default="script_lock,session_turns,index_html",
        description="work-arounds for Streamlit that are on, separated by commas",
    )
    slots: int = Field(
        default=1,
        ge=1,
        le=64,
        description="workers of this host, each with an equal part of GPUs and processors",
    )
    slot: int = Field(
        default=1,
        ge=1,
        description="slot of a worker; unset, `drafthouse worker` starts all",
    )
    gpus: str = Field(
        default="",
        description="GPUs that workers may use, such as 0,2-5, or UUIDs; default: all of the host",
    )
    share_gpus: bool = Field(
        default=False,
        description="start engines on GPUs that other programs use, instead of waiting",
    )
    suspend_idle_engines: bool | None = Field(
        default=None,
        description="suspend other arms' engines while an arm is measured; default: without a GPU",
    )
    keep_engines_for_s: float = Field(
        default=0.0,
        ge=0,
        le=86_400,
        description="how long a study's engines stay up for a next study that would start the very same; "
        "they hold their memory; 0: they end with it",
    )
    lease_s: float = Field(
        default=30.0, ge=2, le=3600, description="a worker without a heartbeat for this long loses its job"
    )
    ingest_every_s: float = Field(
        default=1.0, gt=0, le=3600, description="interval at which the ingester looks for new bundles"
    )
    engine_user: str | None = Field(
        default=None,
        description="system user that engines run as, for a root worker; default: the worker's",
    )
    least_free_mib: int = Field(default=512, ge=0, description="no run, import or dataset begins with less free disk")
    import_mib_per_day: int = Field(
        default=10_240, ge=1, description="what one user may import in 24 hours; the command has no limit"
    )
    engine_start_timeout_s: float = Field(
        default=600.0, gt=0, le=_A_WEEK_S, description="time for an engine to get ready"
    )
    request_timeout_s: float = Field(default=600.0, gt=0, le=_A_WEEK_S, description="time for a request to be answered")
    alarm_webhook: str = Field(default="", exclude=True, repr=False, description="address to which alarms are posted")
    alarm_webhook_form: Literal["slack", "teams"] = Field(default="slack", description="form of posted alarms")
    alarm_webhook_secret_file: Path | None = Field(
        default=None, description="file with the secret that signs posts; default: unsigned"
    )
    alarm_email_to: str = Field(default="", exclude=True, description="recipients of alarms, separated by commas")
    alarm_email_from: str = Field(
        default="", exclude=True, description="sender of alarms by e-mail; default: the first recipient"
    )
    alarm_smtp: str = Field(
        default="smtp://localhost:25", exclude=True, description="mail server, such as smtps://user@mail.example.org"
    )
    alarm_smtp_password_file: Path | None = Field(default=None, description="file with the mail server's password")
    sql_timeout_s: float = Field(default=30.0, gt=0, le=_A_WEEK_S, description="time limit of a user's own SQL query")
    sql_memory_mib: int = Field(default=1024, ge=64, description="memory limit of a user's own SQL query")

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_empty(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse an empty path, as in `DRAFTHOUSE_HOME=$NOT_SET`, which would be the working directory; and an empty
        broker, for which Celery would look for another kind of broker here.
        """
        is_path = "Path" in str(cls.model_fields[info.field_name or ""].annotation)
        if value == "" and (is_path or info.field_name == "broker_url"):
            raise ValueError("should not be empty: leave it out for the default")
        return value

    @field_validator("bundles_dir")
    @classmethod
    def _refuse_folder_without_name(cls, folder: Path | None) -> Path | None:
        if folder is not None and not folder.name:
            raise ValueError("should name a folder of its own: verdicts and removed runs lie in folders beside it")
        return folder

    @field_validator("bundles_url")
    @classmethod
    def _refuse_other_addresses(cls, url: str | None) -> str | None:
        if url is not None and not re.fullmatch(r"((s3|gs|az)://[^/?#@:]+(/[^?#]*)?|file:///[^?#]+)", url):
            raise ValueError(
                "should be s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///folder"
            )
        return url

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def bundles(self) -> Path:
        return self.bundles_dir or self.home / "bundles"

    @property
    def datasets(self) -> Path:
        return self.datasets_dir or self.home / "datasets"

    @property
    def master_file(self) -> Path:
        """Return the ingester's own database, which no other process opens."""
        return self.home / "master.duckdb"

    @property
    def warehouse_file(self) -> Path:
        """Return the published database, which each publish replaces atomically; open it read-only."""
        return self.home / "warehouse.duckdb"

    @property
    def archive_dir(self) -> Path:
        """The Parquet files that `drafthouse archive` wrote."""
        return self.home / ARCHIVE_FOLDER

    @property
    def app_database_url(self) -> str:
        if self.database_url is None:
            return f"sqlite:///{(self.home / 'app.sqlite').absolute()}"
        return with_password(self.database_url, self.database_password_file)

    @property
    def own_broker_url(self) -> str | None:
        """Return the URL of a broker other than the embedded one, with its password; None if there is none.

        With TLS its certificate is checked unless the URL says otherwise: Celery alone would take any.
        """
        if self.broker_url is None:
            return None
        url = with_password(self.broker_url, self.broker_password_file)
        if not url.startswith("rediss:") or "ssl_cert_reqs=" in url:
            return url
        return f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required"

    @property
    def app_database_file(self) -> Path | None:
        """Return the SQLite file of the app database, or None if a database server holds it."""
        embedded = re.fullmatch(r"sqlite(?:\+\w+)?:///([^?]+)(?:\?.*)?", self.app_database_url)
        return None if embedded is None else Path(embedded[1])

    @property
    def broker_file(self) -> Path:
        """The file in which `drafthouse up` stores the URL of its embedded Valkey; readable by its owner only."""
        return self.home / "valkey" / "url"

    @property
    def page_url(self) -> str:
        """Return the page's address for a browser on this machine."""
        host = "127.0.0.1" if self.web_host in ("0.0.0.0", "::") else self.web_host  # noqa: S104 - compared, not bound
        return f"http://{f'[{host}]' if ':' in host else host}:{self.web_port}"

    @property
    def public_url(self) -> str:
        """Return the page's address for browsers: by its first public name, else as on this machine."""
        names = self.public_hosts
        if not names:
            return self.page_url
        scheme = "https" if self.web_https else "http"
        port = "" if self.web_https or ":" in names[0] else f":{self.web_port}"
        return f"{scheme}://{names[0]}{port}"

    @property
    def absent_after(self) -> timedelta | None:
        """Return the time without signing in after which a user's tokens and links are suspended; None for never."""
        if self.web_login != "oidc" or not self.web_oidc_absent_days:
            return None
        return timedelta(days=self.web_oidc_absent_days)

    @property
    def public_hosts(self) -> tuple[str, ...]:
        return tuple(name.strip().lower() for name in self.web_public_hosts.split(",") if name.strip())

    @property
    def start_token_file(self) -> Path:
        """The token of this start, with `web_login = "token"`; readable by its owner only."""
        return self.home / "web-token"

    @property
    def models_dir(self) -> Path:
        return self.home / "models"

    @property
    def logs_dir(self) -> Path:
        return self.home / "logs"


def setting_names() -> dict[str, FieldInfo]:
    """Return the settings by the names that users give them."""
    return {field.alias or name: field for name, field in Settings.model_fields.items()}


def load_settings() -> Settings:
    """Read and validate all settings. Raises SettingsError with one sentence per problem."""
    _refuse_unknown_variables()
    try:
        return Settings()
    except ValidationError as error:
        raise SettingsError("\n".join(map(_sentence, error.errors()))) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{SETTINGS_FILE} is not valid TOML: {error}") from None


def with_password(url: str, file: Path | None) -> str:
    """Return the URL with the file's password. Raises SettingsError if the file cannot be read or its password used."""
    if file is None:
        return url
    try:
        password = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read ({type(error).__name__}): write the password into it") from None
    parts = urlsplit(url)
    if parts.password is not None or not password:
        raise SettingsError(f"{file} is for a URL without a password, and holds one: leave one of both out")
    user, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user if at else ''}:{quote(password, safe='')}@{host}"))


def secret(home: Path, name: str, base_url: str) -> str:
    """Return a secret that a study names, for the server at `base_url`.

    It comes from DRAFTHOUSE_SECRET_<NAME>, or from the `key` of the table [<name>] in secrets.toml. It is bound to the
    server it is for, by DRAFTHOUSE_SECRET_<NAME>_URL or `base_url` in the table: otherwise a study could send it
    anywhere. Raises SecretError if it is missing, invalid or another server's; no message ever contains the value.
    """
    variable, file = SECRET_PREFIX + name.upper(), home / SECRETS_FILE
    table = _secrets(file).get(name)
    value: object
    if variable in os.environ:
        value, bound, where = os.environ[variable], os.environ.get(f"{variable}_URL"), f"{variable}_URL"
    elif isinstance(table, dict):
        value, bound, where = table.get("key"), table.get("base_url"), f"base_url of [{name}] in {file.absolute()}"
    elif table is None:
        raise SecretError(
            f"the secret {name!r} is not set on this host: set {variable} and {variable}_URL, or key and base_url of "
            f"[{name}] in {file.absolute()}"
        )
    else:
        value, bound, where = table, None, f"key and base_url of [{name}] in {file.absolute()}"
    if not isinstance(bound, str) or not bound:
        raise SecretError(f"the secret {name!r} has no server yet: set {where} to the address that may receive it")
    if _origin(bound) != _origin(base_url):
        raise SecretError(f"the secret {name!r} is for another server than {_origin(base_url)}: see {where}")
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value or " " in value:
        raise SecretError(f"the secret {name!r} is not a valid key: it must be one word of printable ASCII characters")
    return value


def _origin(url: str) -> str:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{(parts.hostname or '').rstrip('.')}:{port}"


def _secrets(file: Path) -> dict[str, Any]:
    """Read secrets.toml, but only if its owner alone can read it: otherwise others may know the secrets already."""
    try:
        if mode := stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise SettingsError(
                f"{file.absolute()} can be read or changed by others (mode {mode:o}): run `chmod 600 {file}`"
            )
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = type(error).__name__  # not its text, which may quote a secret
        raise SettingsError(
            f"{file.absolute()} cannot be read ({reason}): it must be TOML: a table [name] with key and base_url"
        ) from None


def _refuse_unknown_variables() -> None:
    """Raise SettingsError for unknown variables: a misspelt one would silently leave its setting at the default."""
    valid = {ENVIRONMENT_PREFIX + name.upper() for name in setting_names()}
    ours = {name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX) and not name.startswith(SECRET_PREFIX)}
    if unknown := sorted(ours - valid):
        raise SettingsError(f"{', '.join(unknown)}: no such setting. The settings are {', '.join(sorted(valid))}")


def _sentence(detail: Any) -> str:
    name = str(detail["loc"][0])
    where = f"{ENVIRONMENT_PREFIX}{name.upper()} (or {name} in {SETTINGS_FILE})"
    if detail["type"] == "extra_forbidden":
        return f"{name} in {SETTINGS_FILE} is not a setting. The settings are {', '.join(sorted(setting_names()))}"
    words = detail["msg"].replace("Input should", "should", 1).removeprefix("Value error, ")
    return f"{where}: {words}, got {detail['input']!r}"
