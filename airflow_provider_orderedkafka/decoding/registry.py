"""The schema registry, by Confluent's client: subjects and schemas, which are kept for each process.

    Registry(config)              picklable; `config` has the client's properties: `url`, `basic.auth.user.info`, ...
    Registry.of(options)          the same, by the options `registry.*` of an application
    registry.subjects()           -> their names
    registry.newest(subject)      -> Registered
    registry.schema(id or guid)   -> Registered; `NoSchemaError` if there is none

Raises UnreachableError, AccessDeniedError and SettingError.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

from ..core.notation.secrets import MASK, masked
from ..errors import AccessDeniedError, CredentialsError, OrderedKafkaError, SettingError, UnreachableError

PREFIX: Final = "registry."
"""What the registry's options begin with."""

SERIALISED: Final = "serialized"
"""The format in which a registry gives Protobuf's descriptors instead of their source."""

NOT_FOUND, UNAUTHORISED, FORBIDDEN = 404, 401, 403

_NO_ANSWER: Final = {"TransportError", "RequestError", "HTTPError", "JSONDecodeError"}
_WAY_OUT: Final = "check that 'url' is right, and that the registry is up"

Found = TypeVar("Found")


class NoSchemaError(OrderedKafkaError):
    """The registry has no schema of this id, or not all that it refers to."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema: its kind (`AVRO`, `JSON`, `PROTOBUF`), id, text; and by name the texts of those that it refers to."""

    kind: str
    id: int | None
    text: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry by its client's configuration; `SettingError` if that has no address."""

    config: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        if not self.config.get("url"):
            raise SettingError(
                "records are decoded with a schema registry, but its address is missing: set the option "
                f"{PREFIX}url=http://registry:8081"
            )

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.config.items())))

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Registry":
        """By the options `registry.*` among others."""
        return cls({n[len(PREFIX) :].lower(): value for n, value in options.items() if n.lower().startswith(PREFIX)})

    @property
    def options(self) -> dict[str, str]:
        """The same as options of an application."""
        return {f"{PREFIX}{name}": value for name, value in self.config.items()}

    @property
    def name(self) -> str:
        return f"the schema registry at {masked(self.config['url']).replace(f'{MASK}@', '')}"

    def subjects(self) -> list[str]:
        return self._asked(lambda client: list(client.get_subjects()), "subjects")

    def newest(self, subject: str, *, serialised: bool = False) -> Registered:
        lacking = (
            f"subject {subject!r}: register the schema there, name the right one with subject=, or give the reader's "
            "schema with schema="
        )
        try:
            found = self._asked(lambda client: client.get_latest_version(subject, **_form(serialised)), lacking)
            if found is None:
                raise SettingError(f"{self.name} has no {lacking}")
            return self._registered(found.schema, found.schema_id, serialised=serialised)
        except NoSchemaError as error:
            raise SettingError(str(error)) from error

    def schema(self, key: int | str, *, serialised: bool = False) -> Registered:
        """The schema of an id or a GUID; one that is there is asked for once in each process."""
        return _schema(self, key, serialised)

    def ask(self, key: int | str, *, serialised: bool) -> Registered:
        """The same, without memory."""
        by_id, more = isinstance(key, int), _form(serialised)
        found = self._asked(
            lambda client: client.get_schema(key, **more) if by_id else client.get_schema_by_guid(key, **more),
            f"schema {key!r}",
        )
        return self._registered(found, key if isinstance(key, int) else None, serialised=serialised)

    def _registered(self, schema: Any, number: int | None, *, serialised: bool) -> Registered:
        texts: dict[str, str] = {}

        def follow(references: Any) -> None:
            for each in references or ():
                if each.name not in texts:
                    found = self._version(each, serialised=serialised)
                    follow(found.references)
                    texts[each.name] = found.schema_str

        follow(schema.references)
        return Registered(schema.schema_type or "AVRO", number, schema.schema_str, tuple(texts.items()))

    def _version(self, named: Any, *, serialised: bool) -> Any:
        """The schema that another one refers to."""
        found = self._asked(
            lambda client: client.get_version(named.subject, named.version, **_form(serialised)),
            f"version {named.version} of subject {named.subject!r}, to which a schema refers as {named.name!r}: "
            "register it there again",
        )
        return found.schema

    def _asked(self, ask: Callable[[Any], Found], what: str) -> Found:
        """What the registry answers; `NoSchemaError` if it has none of what is asked for."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return ask(_client(self))
        except SchemaRegistryError as error:
            raise self._error(error, what) from error
        except OSError as error:
            raise UnreachableError(f"{self.name} cannot be reached: {masked(str(error))}") from error
        except Exception as error:
            # By name: which HTTP client is beneath depends on the version.
            kinds = {each.__name__ for each in type(error).__mro__}
            if "OAuthTokenError" in kinds:
                raise CredentialsError(
                    f"no token to ask {self.name} with: {masked(str(error))}; check the properties bearer.auth.* of "
                    "its connection, and that their endpoint is up"
                ) from error
            if kinds & _NO_ANSWER:
                raise UnreachableError(f"{self.name} does not answer: {masked(str(error))}; {_WAY_OUT}") from error
            raise

    def _error(self, error: Any, what: str) -> OrderedKafkaError:
        status = error.http_status_code
        if status in (UNAUTHORISED, FORBIDDEN):
            kind = CredentialsError if status == UNAUTHORISED else AccessDeniedError
            return kind(
                f"{self.name} refuses this client ({status}: {error.error_message}): check login and password of its "
                "connection, and that they may read the subjects"
            )
        if status == NOT_FOUND and error.error_code not in (None, error.UNKNOWN):  # which any other server leaves out
            return NoSchemaError(f"{self.name} has no {what}")
        return UnreachableError(f"{self.name} failed with {status}: {error.error_message}; {_WAY_OUT}")


def _form(serialised: bool) -> dict[str, str]:  # noqa: FBT001
    return {"fmt": SERIALISED} if serialised else {}


@lru_cache(maxsize=10_000)
def _schema(registry: Registry, key: int | str, serialised: bool) -> Registered:  # noqa: FBT001
    return registry.ask(key, serialised=serialised)


@lru_cache(maxsize=16)
def _client(registry: Registry) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise SettingError(
            f"decoding with a schema registry needs more packages ({error}): pip install "
            "'airflow-provider-orderedkafka[decode]' in Airflow's environment; where Spark runs in another "
            "environment, install what `orderedkafka bundle bundle.zip --requirements requirements.txt` writes down"
        ) from error
    try:
        return SchemaRegistryClient.new_client(
            {**_NUMBERS, **{name: _typed(name, value) for name, value in registry.config.items()}}
        )
    except (ValueError, TypeError, OSError) as error:
        raise SettingError(f"the schema registry's configuration is wrong: {masked(str(error))}") from error


_NUMBERS: Final[dict[str, Any]] = {"timeout": 10, "max.retries": 2, "cache.latest.ttl.sec": 0}
"""What is a number among the properties, and its default here: the newest schema is asked for whenever it matters."""


def _typed(name: str, value: str) -> Any:
    if name == "ssl.ca.location" and value.lower() == "false":
        return False
    return float(value) if name in _NUMBERS or name.endswith((".ms", ".sec", ".capacity")) else value
