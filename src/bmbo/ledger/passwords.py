"""Keep passwords out of every text that is shown or stored.

A storage's URL is shown without its password. The password is also remembered, so that a message of a library which
quotes it is cleaned too.
"""

import re
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"

SHORTEST = 4
"""Shorter passwords are hidden where they stand in a URL, but not everywhere: they may be parts of common words."""

_TELLING = r"[\w.-]*(?:pass|pwd|secret|token|credential|api_?key)[\w.-]*"
"""The names under which URLs and connection strings hold secrets."""

_TELLING_NAME = re.compile(_TELLING, re.IGNORECASE)
_ASSIGNED = re.compile(rf"(\b{_TELLING}['\"]?\s*[=:]\s*)('[^']*'|\"[^\"]*\"|[^&\s'\"]+)", re.IGNORECASE)
_IN_URL = re.compile(r"(://[^:/@\s]*:)\S*@|(://[^/:@\s]*@[^/:@\s]*:)\S+@")
_IN_TORN_URL = re.compile(r"(://(?:[^/@\s]*@)?[^:/@\s\[]+:)(?!\S*@|\d*(?:[/?,;.)'\"\s]|$))[^/\s]+")

_remembered: set[str] = set()


def shown_url(text: str) -> str:
    """Return the URL of a storage, or what a user took for one, without its passwords; remember them.

    More than the password may be hidden where a mistake in the URL leaves open where the password ends.
    """
    shown, hidden = _shown(text)
    for secret in hidden:
        _remember(secret)
    return shown


def has_password(text: str) -> bool:
    """Return whether a text is a URL or a connection string that holds a password."""
    return _shown(text)[0] != text


def without_passwords(text: str) -> str:
    """Return a text without the passwords of the URLs in it, and without all that this process has seen before."""
    # The longest first: one password may be a part of another.
    for secret in sorted(_remembered, key=len, reverse=True):
        # As a word of its own: "postgres" may be a password, and is a part of "postgresql".
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    text = _IN_URL.sub(lambda found: f"{found[1] or found[2]}{HIDDEN}@", text)
    text = _IN_TORN_URL.sub(rf"\1{HIDDEN}", text)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def _shown(text: str) -> tuple[str, list[str]]:
    """Return a URL without its secrets, and the secrets."""
    rest, mark, query = text.partition("?")
    secrets: list[str] = []
    # Without "@" before it, a question mark may be a part of the password.
    if "@" in query and "://" in rest and "@" not in rest:
        rest, mark, query = text, "", ""
    rest = _shown_address(rest, secrets)
    fields = query.split("&")
    for place, field in enumerate(fields):
        name, equals, value = field.partition("=")
        if equals and _TELLING_NAME.fullmatch(unquote_plus(name)):
            # All that follows is hidden: the password may hold a "&" that was not quoted.
            secrets += [value, "&".join([value, *fields[place + 1 :]])]
            query = "&".join([*fields[:place], f"{name}={HIDDEN}"])
            break
    shown = f"{rest}{mark}{query}"
    assigned = _ASSIGNED.search(rest)
    if assigned and "://" not in text:
        # A connection string of libpq: host=db password=secret.
        secrets.append(assigned[2].strip("'\""))
        shown = _ASSIGNED.sub(rf"\1{HIDDEN}", shown)
    return shown, secrets


def _shown_address(text: str, secrets: list[str]) -> str:
    """Return what stands before the query of a URL, with its secrets hidden and added to a list."""
    scheme, mark, address = text.partition("://")
    if not mark:
        before, at, after = text.rpartition("@")
        if at and re.search(r"//|:", before):
            # The address of a server with a mistake in its scheme.
            secrets.append(before.rpartition(":")[2])
            return f"{HIDDEN}@{after}"
        return text
    before, at, after = address.rpartition("@")
    if at:
        user, colon, password = before.partition(":")
        if not colon:
            return text
        # Of a password with an "@" in it, libraries take a part for the host, and quote that.
        secrets += [password, *password.split("@")]
        return f"{scheme}://{user}:{HIDDEN}@{after}"
    place, slash, name = address.partition("/")
    host, colon, port = place.rpartition(":")
    if not colon or port.isdigit() or not port or place.endswith("]"):
        return text
    # No port has letters: the "@" behind a password was forgotten.
    secrets.append(port)
    return f"{scheme}://{host}:{HIDDEN}{slash}{name}"


def _remember(secret: str) -> None:
    """Hide a secret from now on, as it is written in a URL and as it is meant."""
    for form in {secret, unquote(secret), unquote_plus(secret)}:
        for written in {form, quote(form, safe=""), quote_plus(form)}:
            if len(written) >= SHORTEST and written != HIDDEN:
                _remembered.add(written)
