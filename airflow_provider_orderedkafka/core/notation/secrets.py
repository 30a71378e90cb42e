"""What is secret among settings, and text without it: one list for logs, command lines, documents and errors."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MASK: Final = "***"

NAMES: Final = (
    r"pass(?:word|wd|phrase)|secret|token|credential|jaas|authorization|keytab|signature|key\.pem|user\.info"
    r"|oauthbearer\.config|azure\.sas|(?:access|account|api|encryption|private|shared)[._-]?key"
)
"""What the names of secrets have in them, in lower case; Java and Python read it alike."""

_SECRET: Final = re.compile(NAMES)
_PUBLIC: Final = re.compile(
    r"secretkeyref|renewal\.credentials$|kubernetes\.(?:driver|executor)\.secrets\."
    r"|(?:class|arn|enabled|file|interval|lifetime|name|path|period|provider|regex|source|stdin|ttl|type|url)$"
)
"""Settings about secrets that are none."""

_A_PATH: Final = re.compile(r"/|file:|.*\.keytab$")
_ITS_LOGIN: Final = r"[^\s/?#\"'<>:@]{0,300}:(?!\d{0,9}(?:[/?#\s\"',<>]|$))[^\s\"'<>]{0,300}@"
_LOGIN: Final = re.compile(
    rf"(\b[a-z][a-z0-9+.-]{{0,30}}://)({_ITS_LOGIN}|(?<=http://|ttps://)[^\s/?#\"'<>:@]{{1,300}}@)", re.I
)
"""A URL up to its host: with a user and a password, or over HTTP with whatever; a port is no password."""

_NAMED: Final = re.compile(
    rf"((?:{NAMES})[^\s=:,;]{{0,100}}(?:=|(?<=[\"']):\s?))(\"(?:[^\"\\]|\\.){{0,9999}}\"|'(?:[^'\\]|\\.){{0,9999}}'|\S+)",
    re.IGNORECASE,
)
_IN_A_QUERY: Final = re.compile(
    rf"([?&](?:sig|[^\s=&?]{{0,60}}(?:{NAMES})[^\s=&?]{{0,60}})=)[^&\s\"'<>]+", re.IGNORECASE
)
_SAID: Final = re.compile(
    rf"(--[\w.-]{{0,60}}(?:{NAMES})[\w.-]{{0,60}}\s+(?!-)"
    rf"|(?:(?<=[._])(?:{NAMES})|(?:access|account|api|encryption|private|shared)[._-]key)[^\s=:,;\"']{{0,100}}:\s+)"
    r"(\"[^\"]{1,9999}\"|'[^']{1,9999}'|\S+)",
    re.IGNORECASE,
)
"""As a flag and its value, and as YAML has it: a plain word before a colon, as in a sentence, is no setting."""

_SCHEME: Final = re.compile(
    r"((?i:authorization[\"']?\s?[:=]\s?[\"']?(?:bearer|basic)\s+))[^\s\"',]+"
    r"|\b((?i:bearer|basic)\s+)(?=[\w+/=.~-]{16}|[\w+/.~-]{0,15}(?:\d|=|[a-z][A-Z]))[\w+/=.~-]{4,}"
)
"""As HTTP has them; a short word by itself is a value if it does not look like a word."""

_PEM: Final = re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL)
_INSIDE: Final = re.compile(r"password\s*=\s*[\"']?([^\"';\s]+)", re.IGNORECASE)


def is_secret(name: str, value: str = "") -> bool:
    """Whether a setting is secret, by its name, or by a login in its value. A keytab's path is not, its content is."""
    lower = name.lower()
    if has_login(value):
        return True
    if _PUBLIC.search(lower) or not _SECRET.search(lower):
        return False
    return not ("keytab" in lower and _A_PATH.match(value))


def has_login(text: str) -> bool:
    """Whether a URL in it has a login or a signature, which all would know who see the text."""
    return _LOGIN.search(text) is not None or _IN_A_QUERY.search(text) is not None


def masked(text: str) -> str:
    """The text without the values of secrets: by their names, in URLs, and as HTTP and PEM have them."""
    text = _IN_A_QUERY.sub(rf"\1{MASK}", _LOGIN.sub(rf"\1{MASK}@", _PEM.sub(rf"\1{MASK}", text)))
    for named in (_NAMED, _SAID):
        text = named.sub(lambda found: found[0] if _is_public(found) else f"{found[1]}{MASK}", text)
    return _SCHEME.sub(lambda found: f"{found[1] or found[2]}{MASK}", text)


def redacted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: MASK if is_secret(name, str(value)) else value for name, value in settings.items()}


def secrets_of(settings: Mapping[str, Any]) -> Iterator[str]:
    """Each text to hide: the values of secrets, and the passwords within them."""
    for name, value in settings.items():
        text = str(value)
        if not is_secret(name, text):
            continue
        logins = [found[2].removesuffix("@") for found in _LOGIN.finditer(text)]
        passwords = [login.partition(":")[2] for login in logins] + _INSIDE.findall(text)
        if "user.info" in name.lower():
            passwords.append(text.partition(":")[2])
        yield from filter(None, [*([] if logins else [text]), *logins, *passwords])


def _is_public(found: re.Match[str]) -> bool:
    """Whether what looks like a secret in a text is none."""
    name, value = found[1].rstrip("=: ").strip("\"'"), found[2].strip("\"'")
    return value == MASK or not is_secret(name, value)
