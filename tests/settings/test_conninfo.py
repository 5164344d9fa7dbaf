"""Connection strings: read as libpq reads them or refused, and what of them may be shown."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walproof.errors import ConninfoError
from walproof.settings.conninfo import (
    HARMLESS,
    SHOWN,
    concealed,
    parse,
    seems_conninfo,
    shown,
    split_table,
    without_conninfos,
)

KEYWORDS = ("host", "port", "dbname", "user", "password", "sslpassword", "options", "service", "passfile")
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
PAIRS = st.dictionaries(st.sampled_from(KEYWORDS), VALUES, max_size=5)
TEXTS = st.text(st.sampled_from("apu:/@?&=%=4' \\\"[],."), max_size=30)


def _is_number(text: str) -> bool:
    """As libpq reads it: digits of ASCII alone."""
    return text.isascii() and text.isdigit()


@given(PAIRS)
def test_what_libpq_writes_is_read_back(pairs: dict[str, str]) -> None:
    text = make_conninfo("", **pairs)
    try:
        found = parse(text)
    except ConninfoError:
        assert "@" in pairs.get("host", "") or not _is_number(pairs.get("port", "1"))
        return
    assert found == pairs


@settings(max_examples=1000)
@example("postgresql://", "%a4")
@given(st.sampled_from(("postgresql://", "postgres://", "host=", "user=a password=", "")), TEXTS)
def test_what_is_read_is_read_as_libpq_does(begin: str, rest: str) -> None:
    """Whatever stands there: libpq refuses it, or we do, or both read the same."""
    try:
        theirs = conninfo_to_dict(begin + rest)
    except psycopg.Error:
        return
    except UnicodeDecodeError:  # libpq reads bytes that are no text; psycopg cannot hold them
        with pytest.raises(ConninfoError):
            parse(begin + rest)
        return
    try:
        ours = parse(begin + rest)
    except ConninfoError:
        return
    assert {name: value for name, value in ours.items() if value} == {
        name: value for name, value in theirs.items() if value
    }


@given(PAIRS)
def test_nothing_but_listed_keywords_is_shown(pairs: dict[str, str]) -> None:
    secret = {name: f"canary{number}" for number, name in enumerate(sorted(set(KEYWORDS) - SHOWN))}
    safe = {name: value for name, value in pairs.items() if name in ("dbname", "user")}
    text = shown(make_conninfo("", **safe, **secret))
    assert "canary" not in text
    assert parse(text).items() <= safe.items()


def test_keywords_that_can_hold_a_secret_are_not_listed() -> None:
    """Of libpq's own: all that it marks as a password, and options, keys and tokens."""
    marked = {
        default.keyword.decode()
        for default in psycopg.pq.Conninfo.get_defaults()
        if default.dispchar in (b"*", b"D")
    }
    assert not SHOWN & (
        marked | {"options", "sslkey", "scram_client_key", "oauth_client_secret", "require_auth"}
    )


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        ("postgresql://me:canary@db1:5433/shop?sslpassword=canary", "user=me host=db1 port=5433 dbname=shop"),
        ("postgresql://me@/shop?host=%2Frun&password=canary", "user=me dbname=shop host=/run"),
        (
            "postgres://h1:1,h2:2/d?target_session_attrs=any",
            "host=h1,h2 port=1,2 dbname=d target_session_attrs=any",
        ),
        ("host = db1  password = 'it''s'", None),
        ("host=db1 password='a \\' canary' dbname='my shop'", "host=db1 dbname='my shop'"),
        ("dbname=postgresql://u:canary@h/d user=me", "user=me"),
        ("host=@abstract", "host=@abstract"),
        ("service=shop options='-c a.b=canary'", "service=shop"),
    ],
)
def test_what_is_shown(text: str, shows: str | None) -> None:
    if shows is None:
        with pytest.raises(ConninfoError):
            shown(text)
    else:
        assert shown(text) == shows


AMBIGUOUS = [
    "postgresql://me:a@canary@db1/shop",
    "postgresql://me:canary/b@db1/shop",
    "postgresql://me:a/canary@db1/shop",
    "postgresql://me:a:canary@db1/x/y",
    "host=db1 password='canary",
    "host=db1 password=a canary",
    "host=a@canary",
    "port=canary",
    "postgresql://h/d?password=canary=x",
    "postgresql://h/%zzcanary",
]


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_what_could_be_read_in_two_ways_is_refused(text: str) -> None:
    """libpq would take a part of the password for a host, a port or a database, and tell of it."""
    with pytest.raises(ConninfoError) as caught:
        parse(text)
    assert "canary" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("service=shop:orders", ("service=shop", "orders")),
        ('host=db1 dbname=shop:"My Orders"', ("host=db1 dbname=shop", '"My Orders"')),
        ("postgresql://me@db1:5432/shop:public.orders", ("postgresql://me@db1:5432/shop", "public.orders")),
        ("host=h password=a :t", ("host=h password=a ", "t")),
        ("host=h password=a:canary", None),
        ("postgresql://me:canary@db1/shop", None),
        ("postgresql://me:canary@db1", None),
        ("postgresql://db1/shop:or/canary", None),
        ("host=h:", None),
        ("canary", None),
    ],
)
def test_a_table_is_named_after_the_connection_string(text: str, found: tuple[str, str] | None) -> None:
    if found is not None:
        assert split_table(text) == found
        return
    with pytest.raises(ConninfoError) as caught:
        split_table(text)
    assert "canary" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"


def test_what_may_be_a_connection_string() -> None:
    for text in (
        "postgresql:/x", "host=a", "password =x", "x password=y", "mysql://u:p@h/d", "sqlite://?password=x",
    ):  # fmt: skip
        assert seems_conninfo(text), text
    for text in ("results/a.sqlite", "/srv/a=b/facts", "C:/x", "shop.sql:orders", "durability", "--seed=3"):
        assert not seems_conninfo(text), text


def test_what_others_say_is_without_secrets() -> None:
    dsn = "host=db1 password=canary1 options='-c a.b=canary2'"
    assert concealed("at db1: canary1, -c a.b=canary2", dsn) == "at db1: ***, ***"
    assert concealed("oops password='canary", "password='canary") == "oops ***"
    said = "Got unexpected extra argument (password=canary), canary-env, canary-store"
    environment = {"PGPASSWORD": "canary-env", "WALPROOF_STORE": "postgresql://u:canary-store@h/d"}
    assert "canary" not in without_conninfos(said, ["walproof", "password=canary"], environment)


def test_only_what_may_be_secret_is_masked_and_only_as_a_word() -> None:
    said = "postgresql 18, postgres: public.t, max_wal_size = 10000MB, pass 4711"
    plain = (
        "service=shop krbsrvname=postgres tcp_user_timeout=10000 keepalives_idle=4711 requirepeer=postgres"
    )
    assert concealed(said, plain) == said
    assert concealed(said, "password=postgres") == said.replace("postgres:", "***:")
    assert without_conninfos(said, (), {"PGPASSWORD": "postgres"}) == said.replace("postgres:", "***:")
    assert concealed('"a+b" xa+b a+bx "a+b"', "user=me password='a+b '") == '"a+b" xa+b a+bx "a+b"'
    assert concealed('at ".pw.", x.pw.x', "password=.pw.") == 'at "***", x***x'
    assert concealed(r"a\nword %20word sword words", "password=word") == r"a\n*** %20*** sword words"
    passwords = {
        default.keyword.decode() for default in psycopg.pq.Conninfo.get_defaults() if default.dispchar == b"*"
    }
    assert not HARMLESS & (passwords | {"options", "sslkey", "scram_client_key", "oauth_client_secret"})
