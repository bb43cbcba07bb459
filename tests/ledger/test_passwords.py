"""Passwords of storages are in no text that is shown or stored."""

import pytest

from bmbo.ledger import open_storage, redacted, without_passwords
from bmbo.ledger.passwords import has_password

SECRET = "hush-hush"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://me:{SECRET}@host:5432/db", "postgresql://me:***@host:5432/db"),
        (f"postgresql://host/db?user=me&password={SECRET}", "postgresql://host/db?user=me&password=***"),
        (f"postgresql://host/db?PASSWORD={SECRET}&sslmode=require", "postgresql://host/db?PASSWORD=***"),
        (f"postgresql://host/db?p%61ssword=a&{SECRET}", "postgresql://host/db?p%61ssword=***"),
        (f"postgresql://host/db?sslmode=require&sslpassword={SECRET}", None),
        (f"postgresql://me:a@{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://me:a/{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://me:a?{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://me:a {SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://me@work:{SECRET}@host/db", None),
        (f"postgresql://me:{SECRET}host/db", "postgresql://me:***/db"),
        (f"postgresql:/me:{SECRET}@host/db", "***@host/db"),
        (f"postgresql//me:{SECRET}@host/db", "***@host/db"),
        (f"host=db user=me password={SECRET}", "host=db user=me password=***"),
        (f"host=db user=me password='a {SECRET}'", "host=db user=me password=***"),
        ("sqlite:////home/me@work/study.db", "sqlite:////home/me@work/study.db"),
        ("sqlite:///C:/study.db", "sqlite:///C:/study.db"),
        ("/home/me@work/study.journal", "/home/me@work/study.journal"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("postgresql://[::1]/db?host=/run", "postgresql://[::1]/db?host=/run"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    found = redacted(url)
    assert SECRET not in found
    assert shown is None or found == shown
    assert has_password(url) == (SECRET in url)


def test_an_error_about_a_url_names_no_password_and_says_how_to_quote_it():
    with pytest.raises(ValueError, match="storage must be a URL") as refusal:
        open_storage("postgresql://me:hush-hush/db")
    assert SECRET not in str(refusal.value)
    assert "write %40 for @" in str(refusal.value)


def test_a_password_that_was_seen_is_hidden_wherever_a_library_quotes_it():
    redacted("postgresql://me:more%40quiet@host/db")
    said = without_passwords('cannot log in with "more@quiet" (more%40quiet), as unmore@quietly')
    assert said == 'cannot log in with "***" (***), as unmore@quietly'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at p://a:b@c@d/e and q://f:g@h", "at p://a:***@d/e and q://f:***@h"),
        ("got {'password': 'b c', 'user': 'a'}", "got {'password': ***, 'user': 'a'}"),
        ("in p://a:b/c, and in p://a:5432/c.", "in p://a:***/c, and in p://a:5432/c."),
        ("p://h/d?user=a&password=b&c=d", "p://h/d?user=a&password=***&c=d"),
    ],
)
def test_messages_lose_the_passwords_of_urls(text, shown):
    assert without_passwords(text) == shown
