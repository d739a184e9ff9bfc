"""The words of SQL that one row allows, and the tokens of an expression."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

FUNCTIONS = frozenset(
    """
    abs acos acosd asin asind atan atan2 atan2d atand cbrt ceil ceiling cos cosd cot cotd degrees
    div exp floor ln log log10 log1p log2 mod pi pow power radians round sign sin sind sqrt tan
    tand trunc truncate
    bit_and bit_count bit_not bit_or bit_xor
    coalesce greatest if ifnull least nullif
    date date_part datetime strftime strptime time timestamp
    bit_length char_length character_length concat concat_ws ends_with initcap left length lower
    lpad ltrim normalize octet_length regexp_like replace reverse right rpad rtrim split_part
    starts_with string_to_array strpos substr upper
    array_contains array_get array_length array_lower array_mean array_reverse array_sum
    array_to_string array_unique array_upper
    cast try_cast extract position substring trim
    """.split()
)
TYPES = frozenset(
    """
    bigint binary blob bool boolean bytea char character clob date datetime dec decimal double
    float float4 float8 hugeint int int1 int128 int16 int2 int32 int4 int64 int8 integer interval
    mediumint numeric real smallint string text time timestamp tinyint ubigint uhugeint uint uint1
    uint128 uint16 uint2 uint32 uint4 uint64 uint8 uinteger usmallint utinyint uuid varbinary
    varchar
    """.split()
)
LARGEST_LITERAL, LARGEST_64, LARGEST_128 = ((1 << bits - 1) - 1 for bits in (32, 64, 128))
# the largest integer that a type or a function gives
LARGEST_OF_TYPES = {
    **dict.fromkeys("tinyint int1 utinyint uint1 uint8".split(), 1 << 8),
    **dict.fromkeys("smallint int2 int16 usmallint uint2 uint16".split(), 1 << 16),
    **dict.fromkeys("int integer mediumint int4 int32 uinteger uint uint4 uint32".split(), 1 << 32),
    **dict.fromkeys("bigint int8 int64".split(), 1 << 63),
    **dict.fromkeys("ubigint uint64".split(), 1 << 64),
    **dict.fromkeys("hugeint int128 uhugeint uint128".split(), LARGEST_128),
}
LARGEST_OF_CALLS = dict.fromkeys(
    """
    array_length array_lower array_upper bit_count bit_length char_length character_length length
    octet_length position strpos
    """.split(),
    1 << 32,
)
WHOLE_FIELDS = frozenset(  # the others are floats
    """
    century centuries day days decade decades dow doy hour hours isodow isoweek isoyear millennium
    millenium minute minutes month months quarter week weeks year years
    """.split()
)
ROUNDING = frozenset("abs ceil ceiling floor round sign trunc truncate".split())
CHOOSING = frozenset("coalesce greatest ifnull least nullif".split())
UNITS = {  # of an interval, in days
    **{name: 365.25 * 1000 for name in ("millennium", "millenium", "millenniums", "millennia")},
    **{name: 36525.0 for name in ("century", "centuries", "c")},
    **{name: 3652.5 for name in ("decade", "decades")},
    **{name: 365.25 for name in ("year", "years", "y", "yr", "yrs")},
    **{name: 91.3 for name in ("quarter", "quarters", "q")},
    **{name: 30.5 for name in ("month", "months", "mo", "mon", "mons")},
    **{name: 7.0 for name in ("week", "weeks", "w")},
    **{name: 1.0 for name in ("day", "days", "d")},
    **{name: 1 / 24 for name in ("hour", "hours", "h", "hr", "hrs")},
}
SECOND_WORDS = {"double": "precision", "character": "varying", "char": "varying"}
WITH_TEXT = ("date", "datetime", "interval", "time", "timestamp")
FIELDS = frozenset(
    """
    century centuries date day days decade decades dow doy epoch hour hours isodow isoweek isoyear
    microsecond microseconds millennium millenium millisecond milliseconds minute minutes month
    months nanosecond nanoseconds quarter second seconds time week weeks year years
    """.split()
)
FORMS = frozenset(("nfc", "nfd", "nfkc", "nfkd"))  # of Unicode
CLOCKS = "current_date current_time current_timestamp localtime localtimestamp now today".split()
ALLOWED = (
    "an expression holds columns, numbers, 'text', + - * / % ||, comparisons, AND, OR, NOT, IN, "
    "BETWEEN, LIKE, IS NULL, CASE, CAST and functions of one row"
)

_PIECES = r"""\s+
    | (?P<comment> -- | /\* )
    | (?P<text> '(?:[^']|'')*' )
    | (?P<name> "(?:[^"]|"")+" | `[^`]+`(?!`) )
    | (?P<number> (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? ) (?![\w.])
    | (?P<word> [^\W\d]\w* )
    | (?P<sign> <=> | <> | <= | >= | != | == | !~~\*? | ~~\*? | !~\*? | ~\*? | \|\| | // | ::
        | \^@ | [=<>+\-*/%()\[\],.&|] )
    """


class Refused(Exception):
    """The expression holds what it may not; `hint` says what to write."""

    def __init__(self, why: str, hint: str = ALLOWED) -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # text, name, number, word, sign, end
    text: str  # of a text or a name what it means

    @property
    def word(self) -> str:
        """A word or sign as it is compared; nothing for others."""
        return self.text.lower() if self.kind in ("word", "sign") else ""


def cut(text: str) -> Iterator[Token]:
    match, place = re.compile(_PIECES, re.VERBOSE).match, 0
    while place < len(text):
        found = match(text, place)
        if found is None:
            piece = text[place : place + 12]
            if piece[0] in "'\"`":
                raise Refused(f"the quote at {piece!r} is not closed")
            raise Refused(f"{piece!r} cannot be read")
        kind, place = found.lastgroup, found.end()
        if kind == "comment":
            raise Refused(f"it holds a comment, {found[0]}", "leave the comment out")
        if kind == "text":
            yield Token(kind, found[0][1:-1].replace("''", "'"))
        elif kind == "name":
            yield Token(kind, found[0][1:-1].replace('""', '"'))
        elif kind is not None:
            yield Token(kind, found[0].strip())
    yield Token("end", "the end")
