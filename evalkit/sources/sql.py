"""SQL of one row: what `where` and columns may say, parsed here before Polars sees any of it.

Polars' SQL also reads files, sends requests, adds up rows and makes text of any length. So an
expression is cut into tokens, checked against a small grammar, and written again from the tokens
that were checked: every name in double quotes, every text in single ones. What Polars is given
can hold nothing else, whatever its own parser would have made of the text.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from evalkit.errors import nearest

MOST_CHARACTERS = 100_000  # of an expression; a long list of ids fits
MOST_NESTED = 40  # parentheses, calls and CASE inside one another
MOST_IN_A_ROW = 250  # operators, or WHENs
MOST_PARTS = 5_000  # of what an expression stands for; a few forms repeat what they are given
MOST_COPIES = 100  # of a row's own text in one value
MOST_ADDED = 4_096  # characters in one value that the row does not have
_NUMBER = 32  # characters of a number or a time

FUNCTIONS = frozenset(
    """
    abs acos acosd asin asind atan atan2 atan2d atand cbrt ceil ceiling cos cosd cot cotd degrees
    div exp floor ln log log10 log1p log2 mod pi pow power radians round sign sin sind sqrt tan
    tand trunc truncate
    bit_and bit_count bit_not bit_or bit_xor
    coalesce greatest if ifnull least nullif
    date date_part datetime strftime strptime time timestamp
    bit_length char_length character_length concat concat_ws ends_with initcap left length lower
    lpad ltrim octet_length regexp_like replace reverse right rpad rtrim split_part starts_with
    string_to_array strpos substr upper
    array_contains array_get array_length array_lower array_mean array_reverse array_sum
    array_to_string array_unique array_upper
    cast try_cast extract position substring trim
    """.split()
)
_TYPES = frozenset(
    """
    bigint binary blob bool boolean bytea char character clob date datetime dec decimal double
    float float4 float8 hugeint int int1 int128 int16 int2 int32 int4 int64 int8 integer interval
    mediumint numeric real smallint string text time timestamp tinyint ubigint uhugeint uint uint1
    uint128 uint16 uint2 uint32 uint4 uint64 uint8 uinteger usmallint utinyint uuid varbinary
    varchar
    """.split()
)
_SECOND_WORDS = {"double": "precision", "character": "varying", "char": "varying"}
_WITH_TEXT = ("date", "datetime", "interval", "time", "timestamp")
_FIELDS = frozenset(
    """
    century centuries date day days decade decades dow doy epoch hour hours isodow isoweek isoyear
    microsecond microseconds millennium millenium millisecond milliseconds minute minutes month
    months nanosecond nanoseconds quarter second seconds time week weeks year years
    """.split()
)
_CLOCKS = "current_date current_time current_timestamp localtime localtimestamp now today".split()
_ALLOWED = (
    "an expression holds columns, numbers, 'text', + - * / % ||, comparisons, AND, OR, NOT, IN, "
    "BETWEEN, LIKE, IS NULL, CASE, CAST and functions of one row"
)

_TOKEN = re.compile(
    r"""\s+
    | (?P<comment> -- | /\* )
    | (?P<text> '(?:[^']|'')*' )
    | (?P<name> "(?:[^"]|"")+" | `[^`]+`(?!`) )
    | (?P<number> (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? ) (?![\w.])
    | (?P<word> [^\W\d]\w* )
    | (?P<sign> <=> | <> | <= | >= | != | == | !~~\*? | ~~\*? | !~\*? | ~\*? | \|\| | // | ::
        | \^@ | [=<>+\-*/%()\[\],.&|] )
    """,
    re.VERBOSE,
)
# binding powers: OR and AND below NOT, then comparisons, bits, sums, products
_OR, _AND, _NOT, _COMPARED, _BITS, _SUM, _PRODUCT = range(1, 8)
_BINARY = {
    "or": _OR, "xor": _OR, "and": _AND,
    **dict.fromkeys("= == <> != < > <= >= <=> ~ ~* !~ !~* ~~ ~~* !~~ !~~* ^@".split(), _COMPARED),
    **dict.fromkeys(("like", "ilike", "rlike", "regexp", "in", "between", "is"), _COMPARED),
    "&": _BITS, "|": _BITS, "+": _SUM, "-": _SUM, "||": _SUM,
    "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT,
}  # fmt: skip
_ARITHMETIC = ("+", "-", "*", "/", "//", "%")
_COMPUTING = ("abs", "div", "mod", "pow", "power")
_MATCHES = ("like", "ilike", "rlike", "regexp")
_WORDS = frozenset(
    "and as between case distinct else end false for from ilike in is like not null or regexp "
    "rlike then true when xor".split()
)


class Refused(Exception):
    """The expression holds what it may not; `hint` says what to write."""

    def __init__(self, why: str, hint: str = _ALLOWED) -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Checked:
    """An expression as Polars may have it, and the names of columns in it."""

    text: str
    names: tuple[str, ...]


def check_expression(text: str, names: Collection[str], narrow: Collection[str] = ()) -> Checked:
    """`text` checked and written again.

    Args:
        names: columns of the table. A word that is one means the column wherever a column can
            stand, also a word of SQL such as `user` or `order`.
        narrow: columns of integers below 64 bits, which are widened where the expression computes:
            Polars' sums of 8-bit numbers go around at 127 without a word.
    Raises:
        Refused: it is no expression over one row, or too long, nested or large.
    """
    if len(text) > MOST_CHARACTERS:
        raise Refused(f"it has {len(text):,} characters, more than {MOST_CHARACTERS:,}")
    tokens = list(_tokens(text))
    known = set(names)
    if any(token.kind == "word" and token.text in known for token in tokens):
        try:
            return _Parser(tokens, known).parse(narrow)
        except Refused:
            pass  # a column may be called like a word of SQL that is meant as one
    words = {name for name in known if name.lower() in _WORDS}
    return _Parser(tokens, known - words).parse(narrow)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # text, name, number, word, sign, end
    text: str  # of a text or a name what it means

    @property
    def word(self) -> str:
        """A word or sign as it is compared; nothing for others."""
        return self.text.lower() if self.kind in ("word", "sign") else ""


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            piece = text[place : place + 12]
            if piece[0] in "'\"`":
                raise Refused(f"the quote at {piece!r} is not closed")
            raise Refused(f"{piece!r} cannot be read")
        kind, place = found.lastgroup, found.end()
        if kind == "comment":
            raise Refused(f"it holds a comment, {found[0]}", "leave the comment out")
        if kind == "text":
            yield _Token(kind, found[0][1:-1].replace("''", "'"))
        elif kind == "name":
            yield _Token(kind, found[0][1:-1].replace('""', '"'))
        elif kind is not None:
            yield _Token(kind, found[0].strip())
    yield _Token("end", "the end")


@dataclass(frozen=True, slots=True)
class _Part:
    """What is known of a part of an expression.

    Args:
        size: parts that Polars makes of it.
        depth: operators in a row.
        copies, added: its text is at most so many times the text of the row, and so much longer.
        literal: what it is, where it stands there as such.
    """

    size: int = 1
    depth: int = 1
    copies: int = 0
    added: int = 0
    literal: str | int | None = None
    is_constant: bool = False


class _Parser:
    """Reads tokens by operator precedence, and writes those that it has accepted."""

    def __init__(self, tokens: Sequence[_Token], names: set[str]) -> None:
        self._tokens = tokens
        self._columns = names
        self._place = 0
        self._written: list[str] = []
        self._found: dict[str, None] = {}
        self._nested = 0
        self._column_places: list[tuple[int, str]] = []
        self._computes = False

    def parse(self, narrow: Collection[str]) -> Checked:
        whole = self._expression()
        if self._next.kind != "end":
            raise self._unexpected()
        _check_growth(whole)
        for place, name in self._column_places if self._computes else ():
            if name in narrow:
                self._written[place] = f"CAST({self._written[place]} AS BIGINT)"
        return Checked(" ".join(self._written), tuple(self._found))

    # ------------------------------------------------------------ tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _after(self, steps: int = 1) -> _Token:
        return self._tokens[min(self._place + steps, len(self._tokens) - 1)]

    def _is_keyword(self, *words: str) -> bool:
        return self._next.word in words and not self._is_column()

    def _is_column(self) -> bool:
        is_word = self._next.kind == "word" and self._after().kind != "text"
        return is_word and self._next.text in self._columns

    def _take(self, *words: str) -> bool:
        """Accept the next token if it is one of these words or signs."""
        if not self._is_keyword(*words):
            return False
        self._written.append(self._next.word.upper())
        self._place += 1
        return True

    def _need(self, *words: str) -> None:
        if not self._take(*words):
            raise self._unexpected(" or ".join(word.upper() for word in words))

    def _unexpected(self, wanted: str = "") -> Refused:
        token = self._next
        shown = token.text if token.kind == "end" else repr(token.text)
        if wanted:
            return Refused(f"{wanted} is missing before {shown}")
        return Refused(f"{shown} cannot stand where it does")

    # ------------------------------------------------------------ operators

    def _expression(self, least: int = _OR) -> _Part:
        self._nested += 1
        if self._nested > MOST_NESTED:
            raise Refused(f"more than {MOST_NESTED} parts stand inside one another")
        part = _check_size(self._operand())
        while (power := self._power()) >= least:
            part = _check_size(self._operator(part, power))
        self._nested -= 1
        return part

    def _power(self) -> int:
        if self._is_column():
            return 0
        word = self._next.word
        return _COMPARED if word == "not" else _BINARY.get(word, 0)

    def _operator(self, left: _Part, power: int) -> _Part:
        if self._take("is"):
            self._take("not")
            if self._take("distinct"):
                self._need("from")
                return _joined((left, self._expression(power + 1)))
            self._need("null", "true", "false")
            return _joined((left,))
        is_negated = self._take("not")
        if self._take("in"):
            return self._in_list(left)
        if self._take("between"):
            low = self._expression(_BITS)
            self._need("and")
            return _joined((left, left, low, self._expression(_BITS)))
        if is_negated or self._is_keyword(*_MATCHES):
            self._need(*_MATCHES)
            return _joined((left, self._expression(power + 1)))
        sign = self._next.word
        self._need(sign)
        self._computes |= sign in _ARITHMETIC
        right = self._expression(power + 1)
        both = _joined((left, right))
        if sign not in ("+", "||"):
            return both
        return _check_growth(_grown(both, left.copies + right.copies, left.added + right.added))

    def _in_list(self, left: _Part) -> _Part:
        self._need("(")
        each = self._list_until(")")
        if all(part.is_constant for part in each):
            return _joined((left,))
        return _joined([left] * len(each) + each, n_in_a_row=len(each))

    def _list_until(self, end: str) -> list[_Part]:
        parts = [self._expression()]
        while self._take(","):
            parts.append(self._expression())
        self._need(end)
        return parts

    # ------------------------------------------------------------ operands

    def _operand(self) -> _Part:
        if self._is_keyword("-", "+"):
            self._computes = True
            self._take("-", "+")
            part = self._expression(_PRODUCT)
            return _joined((part,), is_constant=part.is_constant)
        if self._is_keyword("not"):
            self._take("not")
            return _joined((self._expression(_NOT),))
        part = self._primary()
        while True:
            if self._take("::"):
                self._type()
                part = _as_text(part)
            elif self._take("["):
                part = _joined((part, *self._list_until("]")))
            else:
                return part

    def _primary(self) -> _Part:
        token = self._next
        if token.kind == "number":
            return self._literal(token.text)
        if token.kind == "text":
            return self._literal(_quoted(token.text, "'"))
        if self._take("("):
            part = self._expression()
            self._need(")")
            return part
        if token.kind == "name" or self._is_column():
            is_call = self._after().word == "(" and token.kind == "word"
            return self._call() if is_call else self._column()
        if token.kind != "word":
            raise self._unexpected("a value")
        if self._take("null", "true", "false"):
            return _Part(is_constant=True)
        if self._take("case"):
            return self._case()
        if self._after().kind == "text" and token.word in _WITH_TEXT:
            self._need(token.word)
            return self._literal(_quoted(self._next.text, "'"))
        return self._call() if self._after().word == "(" else self._column()

    def _literal(self, written: str) -> _Part:
        token = self._next
        self._place += 1
        self._written.append(written)
        is_count = token.kind == "number" and token.text.isdecimal()
        literal = int(token.text[:20]) if is_count else token.text if token.kind == "text" else None
        return _Part(added=len(token.text), literal=literal, is_constant=True)

    def _column(self) -> _Part:
        name = self._next.text
        if self._next.word in _CLOCKS and name not in self._columns:
            raise Refused(f"{name} changes from run to run", _A_DAY)
        self._found[name] = None
        place = len(self._written)
        self._name()
        if self._next.word != ".":
            self._column_places.append((place, name))
        while self._take("."):
            if self._next.kind not in ("name", "word"):
                raise self._unexpected("a name")
            self._name()
        return _Part(copies=1)

    def _name(self) -> None:
        name = self._next.text
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise Refused(f"{name!r} stands for many columns")
        self._written.append(_quoted(name, '"'))
        self._place += 1

    def _case(self) -> _Part:
        compared = [] if self._is_keyword("when") else [self._expression()]
        parts: list[_Part] = []
        n_whens = 0
        while self._take("when"):
            n_whens += 1
            parts += [*compared, self._expression()]
            self._need("then")
            parts.append(self._expression())
        if not n_whens:
            raise self._unexpected("WHEN")
        if self._take("else"):
            parts.append(self._expression())
        self._need("end")
        return _widest(_joined(parts, n_in_a_row=n_whens), parts)

    # ------------------------------------------------------------ functions

    def _call(self) -> _Part:
        name = self._next.word
        if name in _CLOCKS:
            raise Refused(f"{name}() changes from run to run", _A_DAY)
        if name not in FUNCTIONS:
            close = nearest(name, FUNCTIONS)
            hint = (
                f"did you mean {close!r}?" if close else f"functions: {' '.join(sorted(FUNCTIONS))}"
            )
            raise Refused(f"{name}() is no function of one row", hint)
        self._computes |= name in _COMPUTING
        self._written.append(name)
        self._place += 1
        self._need("(")
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self)
        if self._take(")"):
            return _Part()
        parts = self._list_until(")")
        call = _widest(_joined(parts * (3 if name in _REPEATING else 1)), parts)
        growth = _GROWTH.get(name)
        return call if growth is None else _check_growth(_grown(call, *growth(name, parts)))

    def _cast(self) -> _Part:
        part = self._expression()
        self._need("as")
        self._type()
        self._need(")")
        return _as_text(part)

    def _type(self) -> None:
        name = self._next.word
        if name not in _TYPES or self._next.kind != "word":
            raise Refused(
                f"{self._next.text!r} is no type", "such as bigint, double, varchar, boolean, date"
            )
        self._word()
        if name in _SECOND_WORDS and self._next.word == _SECOND_WORDS[name]:
            self._word()
        if self._next.word == "(":
            self._need("(")
            self._number()
            if self._take(","):
                self._number()
            self._need(")")
        if "int" in name and self._next.word == "unsigned":
            self._word()

    def _word(self) -> None:
        self._written.append(self._next.word)
        self._place += 1

    def _number(self) -> None:
        if self._next.kind != "number":
            raise self._unexpected("a number")
        self._literal(self._next.text)

    def _extract(self) -> _Part:
        if self._next.word not in _FIELDS:
            raise Refused(f"{self._next.text!r} is no part of a date", "such as year, month, day")
        self._word()
        self._need("from")
        return self._closed()

    def _position(self) -> _Part:
        text = self._expression(_BITS)
        self._need("in")
        return _joined((text, self._closed()))

    def _substring(self) -> _Part:
        part = self._expression()
        parts = [part]
        while self._take(",", "from", "for"):
            parts.append(self._expression())
        self._need(")")
        return _widest(_joined(parts * 3), parts)

    def _trim(self) -> _Part:
        if self._next.word in ("both", "leading", "trailing") and not self._is_column():
            self._word()
        part = self._expression()
        parts = [part]
        while self._take(",", "from"):
            parts.append(self._expression())
        self._need(")")
        return _widest(_joined(parts), parts)

    def _closed(self) -> _Part:
        part = self._expression()
        self._need(")")
        return _joined((part,))


_SPECIAL: dict[str, Callable[[_Parser], _Part]] = {
    "cast": _Parser._cast,
    "try_cast": _Parser._cast,
    "extract": _Parser._extract,
    "position": _Parser._position,
    "substring": _Parser._substring,
    "trim": _Parser._trim,
}
_REPEATING = "date_part left lpad nullif right rpad split_part substr".split()  # an argument
_IN_LISTS = "many values of one column stand in a list: item in (1, 2, 3)"
_A_DAY = "write day = {day} into the config, and give --var day=2026-11-20"


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, 2 * mark) + mark


# ---------------------------------------------------------------- how large a value gets


def _joined(parts: Sequence[_Part], *, n_in_a_row: int = 1, is_constant: bool = False) -> _Part:
    """A number or a truth that is made of parts."""
    size = 1 + sum(part.size for part in parts)
    depth = n_in_a_row + max(part.depth for part in parts)
    return _Part(size, depth, 0, _NUMBER, is_constant=is_constant)


def _grown(part: _Part, copies: int, added: int) -> _Part:
    return _Part(part.size, part.depth, copies, added)


def _widest(part: _Part, parts: Sequence[_Part]) -> _Part:
    """Text that is one of the parts, or less of it."""
    return _grown(
        part, max(each.copies for each in parts), max(_NUMBER, *(each.added for each in parts))
    )


def _as_text(part: _Part) -> _Part:
    return _grown(_joined((part,)), part.copies, part.added + _NUMBER)


def _check_size(part: _Part) -> _Part:
    if part.depth > MOST_IN_A_ROW:
        raise Refused(f"more than {MOST_IN_A_ROW} operators stand in a row", _IN_LISTS)
    if part.size > MOST_PARTS:
        raise Refused(f"it stands for more than {MOST_PARTS:,} parts", _IN_LISTS)
    return part


def _check_growth(part: _Part) -> _Part:
    if part.copies > MOST_COPIES or part.added > MOST_ADDED:
        raise Refused(
            f"it makes text of more than {MOST_ADDED:,} characters, or of more than "
            f"{MOST_COPIES} times those of a row",
            "make shorter text",
        )
    return part


def _concat(name: str, parts: Sequence[_Part]) -> tuple[int, int]:
    several = [*parts, *([parts[0]] * len(parts) if name == "concat_ws" else [])]
    return sum(part.copies for part in several), sum(part.added for part in several)


def _pad(name: str, parts: Sequence[_Part]) -> tuple[int, int]:
    width = parts[1].literal if len(parts) > 1 else 0
    if not isinstance(width, int):
        raise Refused(f"{name}() pads to a width that is no number", f"{name}(item, 8, '0')")
    return parts[0].copies, max(width, parts[0].added)


def _replace(name: str, parts: Sequence[_Part]) -> tuple[int, int]:
    old, new = (parts[place].literal if len(parts) > place else "" for place in (1, 2))
    if not isinstance(new, str):
        raise Refused(f"{name}() puts in what is no text in quotes", f"{name}(item, 'a', 'b')")
    n_old = len(old) if isinstance(old, str) else 0
    times = -(-len(new) // n_old) if n_old else len(new) + 1
    return parts[0].copies * max(times, 1), parts[0].added * max(times, 1) + len(new)


def _between(name: str, parts: Sequence[_Part]) -> tuple[int, int]:
    """Elements of a list with text between them."""
    text = parts[1].literal if len(parts) > 1 else ""
    if not isinstance(text, str):
        raise Refused(f"{name}() puts in what is no text in quotes", f"{name}(items, ',')")
    return parts[0].copies * (1 + len(text)), parts[0].added * (1 + len(text))


def _by_format(name: str, parts: Sequence[_Part]) -> tuple[int, int]:
    return 16 * sum(part.copies for part in parts), 16 * sum(part.added for part in parts)


_GROWTH: dict[str, Callable[[str, Sequence[_Part]], tuple[int, int]]] = {
    "concat": _concat,
    "concat_ws": _concat,
    "lpad": _pad,
    "rpad": _pad,
    "replace": _replace,
    "array_to_string": _between,
    "strftime": _by_format,
}
