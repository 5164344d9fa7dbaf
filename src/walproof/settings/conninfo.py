"""Connection strings: what they say, and which parts may be shown or kept.

libpq takes two forms (manual, "Connection Strings"): ``keyword=value`` pairs and URIs. They are read here by
the rules of src/interfaces/libpq/fe-connect.c, and more strictly: a password with an unescaped "@", "/" or
":" ends up in the name of a host or database or in a port, which libpq and servers repeat in their errors.
Such a text is refused, and no error repeats any part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote_to_bytes

from walproof.errors import ConninfoError

SHOWN = frozenset(
    {
        "host", "hostaddr", "port", "dbname", "user", "service", "servicefile", "passfile",
        "application_name", "target_session_attrs", "load_balance_hosts", "connect_timeout",
        "channel_binding", "gssencmode", "sslmode", "sslnegotiation", "sslcert", "sslrootcert",
    }
)  # fmt: skip
"""Keywords whose values may be shown and kept. All others may be secret (``password``, ``sslpassword``,
``sslkey`` of a token with its PIN), may hold secrets (``options``), or are unknown."""
HARMLESS = frozenset(
    {
        "krbsrvname", "gsslib", "gssdelegation", "requirepeer", "require_auth", "client_encoding",
        "fallback_application_name", "replication", "keepalives", "keepalives_idle", "keepalives_interval",
        "keepalives_count", "tcp_user_timeout", "sslcertmode", "sslcompression", "sslcrl", "sslcrldir",
        "sslsni", "ssl_min_protocol_version", "ssl_max_protocol_version", "min_protocol_version",
        "max_protocol_version",
    }
)  # fmt: skip
"""Keywords of libpq that are not shown, but whose values are no secret: words and numbers such as
``postgres`` and ``10000``, which mean something else wherever they are met."""
ADVICE = (
    'Examples: "service=shop" (a service file), "host=db1 dbname=shop user=me", postgresql://me@db1/shop.'
)
_ESCAPES = "Put a password in ~/.pgpass or a service file; in a URI write its @ : / as %40 %3A %2F."
_SCHEMES = ("postgresql://", "postgres://")
_PAIR = re.compile(
    r"\s*(?P<keyword>[A-Za-z_]+)\s*=\s*(?:'(?P<quoted>(?:[^'\\]|\\.)*)'|(?P<bare>(?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*)?)"
    r"(?=\s|$)",
    re.DOTALL,
)
_SEEMS = re.compile(
    r"^\s*postgres(?:ql)?(?:\+\w+)?:|(?:^|\s)(?:host|hostaddr|port|dbname|user|service|servicefile|options"
    r"|application_name|passfile|password|ssl\w*|gss\w*|scram_\w+|oauth_\w+)\s*=|://[^/]*@"
    r"|[?&](?:ssl)?password=",
    re.IGNORECASE,
)
_HIDDEN = "***"
_BEGIN = r"(?:(?<!\w)|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
"""Where a word begins: also after an escape, of a line end or in a URI."""
_SHORTEST_HIDDEN = 4
"""Shortest value that is hidden: shorter values occur in too many words of a text."""


def parse(text: str) -> dict[str, str]:
    """Keyword -> value, as libpq would read the text. Raises ConninfoError."""
    given = _from_uri(text) if text.startswith(_SCHEMES) else _from_pairs(text)
    for host in given.get("host", "").split(","):
        # "/" begins the folder of a socket, "@" the name of an abstract socket.
        if "@" in host and not host.startswith(("/", "@")):
            raise ConninfoError('connection string with an "@" in the host', hint=_ESCAPES)
    if not re.fullmatch(r"[0-9, ]*", given.get("port", "")):
        raise ConninfoError("connection string with a port that is not a number", hint=_ESCAPES)
    return given


def shown(text: str) -> str:
    """The parts of the connection string that may be shown and kept, as pairs. Raises ConninfoError."""
    return " ".join(f"{name}={_quoted(value)}" for name, value in shown_parts(text).items())


def shown_parts(text: str) -> dict[str, str]:
    """The same, keyword -> value. Raises ConninfoError."""
    return {name: value for name, value in parse(text).items() if name in SHOWN and _is_plain(value)}


def split_table(text: str) -> tuple[str, str]:
    """Split ``DSN:NAME``. Raises ConninfoError if no table name follows the connection string."""
    place, colon, name = text.rpartition(":")
    begin = len(place)
    if text.startswith(_SCHEMES):
        # A colon before the first slash belongs to the password or the port.
        path = re.compile(r"[/?]").search(text, text.index("://") + 3)
        is_after = path is not None and begin > path.start()
    else:
        # The name could be part of the last value, which may be secret.
        last = next(reversed(parse(place)), "") if colon else ""
        is_after = last in SHOWN or place.endswith((" ", "'"))
    if not colon or not is_after or not re.fullmatch(r'(?:"(?:[^"]|"")+"|[^\W\d][\w$]*|\.)+', name):
        raise ConninfoError(
            "no table is named after the connection string",
            hint='Write DSN:NAME, with the password elsewhere: "service=shop:orders".',
        )
    parse(place)
    return place, name


def seems_conninfo(text: str) -> bool:
    """Whether a text given for something else, such as a file, may be a connection string."""
    return _SEEMS.search(text) is not None


def concealed(said: str, *texts: str) -> str:
    """What a library or server said, with the hidden values of these connection strings masked."""
    hidden: set[str] = set()
    for text in texts:
        try:
            hidden |= _hidden(parse(text))
        except ConninfoError:
            hidden.add(text)
    for value in sorted(hidden, key=len, reverse=True):
        said = _masked(said, value)
    return said


def _masked(said: str, value: str) -> str:
    """The text with a mask for the value where it is a word: within other words it would mask a part of what
    everybody knows, and so tell the value."""
    before = _BEGIN if re.match(r"\w", value) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", value) else ""
    return re.sub(f"{before}{re.escape(value)}{after}", _HIDDEN, said)


def without_conninfos(said: str, words: Sequence[str], environment: Mapping[str, str]) -> str:
    """A message in which connection strings of a command line and its environment are masked."""
    for word in words:
        if seems_conninfo(word):
            said = concealed(said.replace(word, _HIDDEN), word)
    store = environment.get("WALPROOF_STORE", "")
    values = (environment.get("PGPASSWORD", ""), environment.get("PGOPTIONS", ""))
    for value in values:
        said = _masked(said, value) if len(value) >= _SHORTEST_HIDDEN else said
    return concealed(said.replace(store, _HIDDEN), store) if seems_conninfo(store) else said


def _hidden(given: Mapping[str, str]) -> set[str]:
    harmless = SHOWN | HARMLESS
    return {
        value for name, value in given.items() if name not in harmless and len(value) >= _SHORTEST_HIDDEN
    }  # fmt: skip


def _from_pairs(text: str) -> dict[str, str]:
    given = {}
    at = 0
    while text[at:].strip():
        pair = _PAIR.match(text, at)
        if pair is None:
            raise ConninfoError("invalid connection string", hint=ADVICE)
        value = pair["quoted"] if pair["quoted"] is not None else pair["bare"] or ""
        given[pair["keyword"]] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        at = pair.end()
    return given


def _from_uri(text: str) -> dict[str, str]:
    if re.search(r"\s", text):
        raise ConninfoError("connection string with a space in its URI", hint=_ESCAPES)
    given: dict[str, str] = {}
    rest = text.partition("://")[2]
    # The user ends at the first "@", if that comes before the first "/".
    if (users := re.match(r"[^@/]*@", rest)) is not None:
        user, _, password = users[0][:-1].partition(":")
        given |= {"user": _decoded(user), "password": _decoded(password)}
        rest = rest[users.end() :]
    place, _, query = rest.partition("?")
    hosts, slash, database = place.partition("/")
    if slash and re.search(r"[@/:]", database):
        raise ConninfoError("connection string with an unescaped character in its path", hint=_ESCAPES)
    names, ports = [], []
    for host in hosts.split(","):
        found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([^:]*))?", host)
        if found is None:
            raise ConninfoError("invalid connection string", hint=_ESCAPES)
        names.append(_decoded(found[1].strip("[]")))
        ports.append(_decoded(found[2] or ""))
    given |= {"host": ",".join(names), "port": ",".join(ports), "dbname": _decoded(database)}
    given = {name: value for name, value in given.items() if value}
    for parameter in query.split("&") if query else ():
        keyword, equals, value = parameter.partition("=")
        if not equals or "=" in value:
            raise ConninfoError("invalid connection string", hint=_ESCAPES)
        keyword, value = _decoded(keyword), _decoded(value)
        given |= {"sslmode": "require"} if (keyword, value) == ("ssl", "true") else {keyword: value}
    return given


def _decoded(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})|%00", text) is None:
        try:
            return unquote_to_bytes(text).decode()
        except UnicodeDecodeError:
            pass
    raise ConninfoError("invalid connection string", hint=_ESCAPES)


def _is_plain(value: str) -> bool:
    """A value that looks like another connection string may hold a password."""
    return "://" not in value and "=" not in value and value.isprintable()


def _quoted(value: str) -> str:
    if re.fullmatch(r"[^\s'\\]+", value):
        return value
    return "'" + re.sub(r"(['\\])", r"\\\1", value) + "'"
