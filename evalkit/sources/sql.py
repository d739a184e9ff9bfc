"""SQL of one row: what `where` and columns may say, parsed here before Polars sees any of it.

Polars' SQL also reads files, sends requests, adds up rows and makes text of any length. So an
expression is cut into tokens, checked against a small grammar, and written again from the tokens
that were checked: every name in double quotes, every text in single ones. What Polars is given
can hold nothing else, whatever its own parser would have made of the text.

Polars' integers go around without a word: 100 * 2 is -56 in 8 bits, `length(s) - 5` four thousand
million. So what can be the largest integer is followed from part to part, and integers that are
computed with are cast to a type that holds it; where none does, the expression is refused.
"""

# Long: one grammar, whose rules call each other; its words and limits stand beside it.

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from evalkit.errors import did_you_mean
from evalkit.sources import sql_words
from evalkit.sources.sql_parts import (
    GROWTH,
    MOST_CHARACTERS,
    MOST_NESTED,
    SqlPart,
    as_text,
    check_growth,
    check_interval,
    check_pattern,
    check_size,
    grown,
    joined,
    largest_of,
    widest,
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
DECIMALS, MOST_DIGITS = ("decimal", "numeric", "dec"), 38
_ARITHMETIC = ("+", "-", "*", "/", "//", "%")
_WITH_PATTERN = ("~", "~*", "!~", "!~*", "like", "ilike", "rlike", "regexp")  # take a pattern
_MATCHES = ("like", "ilike", "rlike", "regexp")
_WORDS = frozenset(
    "and as between case distinct else end false for from ilike in is like not null or regexp "
    "rlike then true when xor".split()
)


@dataclass(frozen=True, slots=True)
class Checked:
    """An expression as Polars may have it, and the names of columns in it."""

    text: str
    names: tuple[str, ...]


def check_expression(
    text: str,
    names: Collection[str],
    largest: Mapping[str, int] | None = None,
    times: Mapping[str, bool] | None = None,
) -> Checked:
    """`text` checked and written again.

    Args:
        names: columns of the table. A word that is one means the column wherever a column can
            stand, also a word of SQL such as `user` or `order`.
        largest: the largest absolute value that columns of integers can hold; below 0 of lists.
        times: columns of dates, times and spans of time, and whether they are in nanoseconds.
    Raises:
        Refused: it is no expression over one row, or too long, nested or large, or computes with
            integers that may go beyond 128 bits.
    """
    if len(text) > MOST_CHARACTERS:
        raise sql_words.Refused(f"it has {len(text):,} characters, more than {MOST_CHARACTERS:,}")
    tokens = list(sql_words.cut(text))
    known = set(names)
    if any(token.kind == "word" and token.text in known for token in tokens):
        try:
            return _Parser(tokens, known, largest or {}, times or {}).parse()
        except sql_words.Refused:
            pass  # a column may be called like a word of SQL that is meant as one
    words = {name for name in known if name.lower() in _WORDS}
    return _Parser(tokens, known - words, largest or {}, times or {}).parse()


class _Parser:
    """Reads tokens by operator precedence, and writes those that it has accepted."""

    def __init__(
        self,
        tokens: Sequence[sql_words.Token],
        names: set[str],
        largest: Mapping[str, int],
        times: Mapping[str, bool],
    ) -> None:
        self._tokens = tokens
        self._columns = names
        self._largest = largest
        self._times = times
        self._place = 0
        self._written: list[str] = []
        self._found: dict[str, None] = {}
        self._nested = 0
        self._days = 0.0  # of all intervals
        self._widened: list[tuple[int, int]] = []  # where integers stand that are computed with
        self._needs_128 = False

    def parse(self) -> Checked:
        whole = self._expression()
        if self._next.kind != "end":
            raise self._unexpected()
        check_growth(whole)
        for start, end in self._widened:  # inner ones come first
            self._cast_to("INT128" if self._needs_128 else "BIGINT", start, end)
        return Checked(" ".join(self._written), tuple(self._found))

    def _cast_to(self, wider: str, start: int, end: int) -> None:
        self._written[start] = "CAST( " + self._written[start]
        self._written[end - 1] += f" AS {wider} )"

    # ------------------------------------------------------------ integers that are computed with

    def _widen(self, part: SqlPart) -> None:
        if part.largest is not None and not part.is_wide:
            self._widened.append(part.span)
            self._needs_128 |= part.largest > sql_words.LARGEST_64 + 1

    def _grown_to(self, part: SqlPart, largest: int | None) -> SqlPart:
        """What is computed of integers, which may be so large."""
        if largest is None:
            return part
        if largest > sql_words.LARGEST_128:
            raise sql_words.Refused("its integers may have more than 38 digits", _AS_DOUBLE)
        self._needs_128 |= largest > sql_words.LARGEST_64
        return replace(part, largest=largest, is_wide=True)

    def _compute(self, sign: str, left: SqlPart, right: SqlPart) -> SqlPart:
        """What an operator of numbers makes of two."""
        if sign == "*" and (left.is_time or right.is_time):
            raise sql_words.Refused(
                "a span of time is multiplied", "cast(... as bigint) makes it a number"
            )
        is_nano = (
            sign in "+-" and left.is_nano and right.is_nano
        )  # with anything else, they become microseconds
        if is_nano and not (left.is_constant and right.is_constant):
            raise sql_words.Refused(
                "times in nanoseconds end in the year 2262", "cast(... as timestamp) + ..."
            )
        is_time = left.is_time or right.is_time
        both = replace(joined((left, right)), is_time=is_time, is_nano=is_nano)
        if left.largest is None or right.largest is None:
            for part in (left, right):
                if not part.is_constant:
                    self._widen(part)
            return both
        if sign in ("%", "/", "//") and max(left.largest, right.largest) > sql_words.LARGEST_64 + 1:
            return both if sign == "/" else replace(both, largest=left.largest)
        largest = left.largest
        if sign in ("+", "-", "*"):
            is_sum = sign != "*"
            largest = left.largest + right.largest if is_sum else left.largest * right.largest
        if left.is_constant and right.is_constant and largest <= sql_words.LARGEST_LITERAL:
            return replace(both, largest=None if sign == "/" else largest, is_constant=True)
        self._widen(left)
        self._widen(right)
        return both if sign == "/" else self._grown_to(both, largest)

    def _raise(self, parts: Sequence[SqlPart], call: SqlPart) -> SqlPart:
        """A power; that of an integer is a float unless it is known how large it gets."""
        base, exponent = parts[0], parts[1].literal if len(parts) == 2 else None
        if base.largest is None:
            return call
        if (
            isinstance(exponent, int)
            and base.largest ** min(exponent, 128) <= sql_words.LARGEST_128
        ):
            self._widen(base)
            return self._grown_to(call, base.largest**exponent)
        self._cast_to("DOUBLE", *base.span)
        return replace(call, largest=None)

    # ------------------------------------------------------------ tokens

    @property
    def _next(self) -> sql_words.Token:
        return self._tokens[self._place]

    def _after(self) -> sql_words.Token:
        return self._tokens[min(self._place + 1, len(self._tokens) - 1)]

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

    def _unexpected(self, wanted: str = "") -> sql_words.Refused:
        token = self._next
        shown = token.text if token.kind == "end" else repr(token.text)
        if wanted:
            return sql_words.Refused(f"{wanted} is missing before {shown}")
        return sql_words.Refused(f"{shown} cannot stand where it does")

    # ------------------------------------------------------------ operators

    def _expression(self, least: int = _OR) -> SqlPart:
        self._nested += 1
        if self._nested > MOST_NESTED:
            raise sql_words.Refused(f"more than {MOST_NESTED} parts stand inside one another")
        start = len(self._written)
        part = check_size(self._operand())
        while (power := self._power()) >= least:
            part = replace(part, span=(start, len(self._written)))
            part = check_size(self._operator(part, power))
        part = replace(part, span=(start, len(self._written)))
        self._nested -= 1
        return part

    def _power(self) -> int:
        if self._is_column():
            return 0
        word = self._next.word
        return _COMPARED if word == "not" else _BINARY.get(word, 0)

    def _operator(self, left: SqlPart, power: int) -> SqlPart:
        if self._take("is"):
            self._take("not")
            if self._take("distinct"):
                self._need("from")
                return joined((left, self._expression(power + 1)))
            self._need("null", "true", "false")
            return joined((left,))
        is_negated = self._take("not")
        if self._take("in"):
            return self._in_list(left)
        if self._take("between"):
            low = self._expression(_BITS)
            self._need("and")
            return joined((left, left, low, self._expression(_BITS)))
        if is_negated and not self._is_keyword(*_MATCHES):
            raise self._unexpected(" or ".join(word.upper() for word in _MATCHES))
        sign = self._next.word
        self._need(sign)
        right = self._expression(power + 1)
        if sign in _WITH_PATTERN:
            check_pattern(right)
        if sign not in _ARITHMETIC:
            both = replace(joined((left, right)), largest=1 if power <= _COMPARED else None)
        else:
            both = self._compute(sign, left, right)
        if power == _BITS and left.largest is not None and right.largest is not None:
            both = replace(both, largest=2 * max(left.largest, right.largest))
        if sign not in ("+", "||"):
            return both
        return check_growth(grown(both, left.copies + right.copies, left.added + right.added))

    def _in_list(self, left: SqlPart) -> SqlPart:
        self._need("(")
        each = self._list_until(")")
        if all(part.is_constant for part in each):
            return joined((left,))
        return joined([left] * len(each) + each, n_in_a_row=len(each))

    def _list_until(self, end: str) -> list[SqlPart]:
        parts = [self._expression()]
        while self._take(","):
            parts.append(self._expression())
        self._need(end)
        return parts

    # ------------------------------------------------------------ operands

    def _operand(self) -> SqlPart:
        if self._is_keyword("-", "+"):
            self._take("-", "+")
            part = self._expression(_PRODUCT)
            whole = replace(joined((part,)), is_constant=part.is_constant, is_time=part.is_time)
            whole = replace(whole, is_nano=part.is_nano)
            if part.is_constant:
                return replace(whole, largest=part.largest)
            self._widen(part)
            return self._grown_to(whole, part.largest)
        if self._is_keyword("not"):
            self._take("not")
            return joined((self._expression(_NOT),))
        part = self._primary()
        while True:
            if self._take("::"):
                part = self._type_of(part)
            elif self._take("["):
                part = replace(joined((part, *self._list_until("]"))), largest=part.inside)
            else:
                return part

    def _primary(self) -> SqlPart:
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
            return SqlPart(is_constant=True, largest=int(token.word != "null"))
        if self._take("case"):
            return self._case()
        if self._after().kind == "text" and token.word in sql_words.WITH_TEXT:
            self._need(token.word)
            is_span = token.word == "interval"
            if is_span:
                self._days = check_interval(self._next.text, self._days)
            literal = self._literal(_quoted(self._next.text, "'"))
            return replace(literal, is_time=True, is_nano=is_span)
        return self._call() if self._after().word == "(" else self._column()

    def _literal(self, written: str) -> SqlPart:
        token = self._next
        self._place += 1
        self._written.append(written)
        is_count = token.kind == "number" and token.text.isdecimal()
        literal = int(token.text[:20]) if is_count else token.text if token.kind == "text" else None
        largest = int(token.text) if is_count and len(token.text) < 39 else None
        return SqlPart(added=len(token.text), literal=literal, is_constant=True, largest=largest)

    def _column(self) -> SqlPart:
        name = self._next.text
        if self._next.word in sql_words.CLOCKS and name not in self._columns:
            raise sql_words.Refused(f"{name} changes from run to run", _A_DAY)
        self._found[name] = None
        self._name()
        is_whole = self._next.word != "."
        while self._take("."):
            if self._next.kind not in ("name", "word"):
                raise self._unexpected("a name")
            self._name()
        largest = self._largest.get(name) if is_whole else None
        is_list = largest is not None and largest < 0
        return SqlPart(
            copies=1,
            largest=None if is_list else largest,
            inside=-largest if is_list and largest is not None else None,
            is_time=is_whole and name in self._times,
            is_nano=is_whole and self._times.get(name, False),
        )

    def _name(self) -> None:
        name = self._next.text
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise sql_words.Refused(f"{name!r} stands for many columns")
        self._written.append(_quoted(name, '"'))
        self._place += 1

    def _case(self) -> SqlPart:
        compared = [] if self._is_keyword("when") else [self._expression()]
        parts: list[SqlPart] = []
        given: list[SqlPart] = []
        n_whens = 0
        while self._take("when"):
            n_whens += 1
            parts += [*compared, self._expression()]
            self._need("then")
            given.append(self._expression())
        if not n_whens:
            raise self._unexpected("WHEN")
        if self._take("else"):
            given.append(self._expression())
        self._need("end")
        parts += given
        whole = widest(joined(parts, n_in_a_row=n_whens), parts)
        whole = replace(whole, is_nano=any(part.is_nano for part in given))
        return replace(whole, largest=largest_of(given), is_time=any(x.is_time for x in given))

    # ------------------------------------------------------------ functions

    def _call(self) -> SqlPart:
        name = self._next.word
        if name in sql_words.CLOCKS:
            raise sql_words.Refused(f"{name}() changes from run to run", _A_DAY)
        if name not in sql_words.FUNCTIONS:
            hint = did_you_mean(
                name, sql_words.FUNCTIONS, f"functions: {' '.join(sorted(sql_words.FUNCTIONS))}"
            )
            raise sql_words.Refused(f"{name}() is no function of one row", hint)
        self._written.append(name)
        self._place += 1
        self._need("(")
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self)
        if self._take(")"):
            return SqlPart()
        parts = self._list_until(")")
        call = widest(joined(parts * (3 if name in _REPEATING else 1)), parts)
        call = self._with_largest(name, call, parts)
        growth = GROWTH.get(name)
        return call if growth is None else check_growth(grown(call, *growth(name, parts)))

    def _with_largest(self, name: str, call: SqlPart, parts: Sequence[SqlPart]) -> SqlPart:
        """The call, with the largest integer that it may give."""
        first = parts[0]
        if name in sql_words.LARGEST_OF_CALLS:
            return replace(call, largest=sql_words.LARGEST_OF_CALLS[name])
        if name == "date_part":
            is_whole = (
                isinstance(first.literal, str) and first.literal.lower() in sql_words.WHOLE_FIELDS
            )
            return replace(call, largest=1 << 32 if is_whole else None)
        if name in ("div", "mod") and len(parts) == 2:
            return self._compute("//", first, parts[1])
        if name in ("pow", "power"):
            return self._raise(parts, call)
        if name == "array_sum" and (first.inside or 0) > sql_words.LARGEST_64:
            raise sql_words.Refused("a sum of 64-bit integers may go around", "add them up before")
        if name == "array_get":
            return replace(call, largest=first.inside)
        if name == "regexp_like":
            for pattern in parts[1:]:
                check_pattern(pattern)
            return replace(call, largest=1)
        if name in sql_words.ROUNDING and first.largest is not None:
            self._widen(first)
            return self._grown_to(call, first.largest)
        if name == "if" or name in sql_words.CHOOSING:
            given = parts[1:] if name == "if" else parts
            is_nano = any(part.is_nano for part in given)
            return replace(call, largest=largest_of(given), is_nano=is_nano)
        return call

    def _cast(self) -> SqlPart:
        part = self._expression()
        self._need("as")
        part = self._type_of(part)
        self._need(")")
        return part

    def _type_of(self, part: SqlPart) -> SqlPart:
        """A part as another type."""
        name = self._next.word
        self._type()
        is_time = name in (*sql_words.WITH_TEXT, "timestamp")
        return replace(as_text(part), largest=sql_words.LARGEST_OF_TYPES.get(name), is_time=is_time)

    def _type(self) -> None:
        name = self._next.word
        if name not in sql_words.TYPES or self._next.kind != "word":
            raise sql_words.Refused(
                f"{self._next.text!r} is no type", "such as bigint, double, varchar, boolean, date"
            )
        self._word()
        if name in sql_words.SECOND_WORDS and self._next.word == sql_words.SECOND_WORDS[name]:
            self._word()
        if self._next.word == "(":
            self._need("(")
            digits = [self._number()]
            if self._take(","):
                digits.append(self._number())
            self._need(")")
            if name in DECIMALS and not max([1, *digits[1:]]) <= digits[0] <= MOST_DIGITS:
                told = f"{name}({', '.join(map(str, digits))}) is no type"
                raise sql_words.Refused(
                    told, f"it has 1 to {MOST_DIGITS} digits, as decimal(18, 3)"
                )
        if "int" in name and self._next.word == "unsigned":
            self._word()

    def _word(self) -> None:
        self._written.append(self._next.word)
        self._place += 1

    def _number(self) -> int:
        """A whole number that is written as one."""
        text = self._next.text
        if self._next.kind != "number" or not text.isdecimal():
            raise self._unexpected("a number")
        self._literal(text)
        return int(text[:20])

    def _extract(self) -> SqlPart:
        if self._next.word not in sql_words.FIELDS:
            raise sql_words.Refused(
                f"{self._next.text!r} is no part of a date", "such as year, month, day"
            )
        is_whole = self._next.word in sql_words.WHOLE_FIELDS
        self._word()
        self._need("from")
        return replace(self._closed(), largest=1 << 32 if is_whole else None)

    def _position(self) -> SqlPart:
        text = self._expression(_BITS)
        self._need("in")
        return replace(
            joined((text, self._closed())), largest=sql_words.LARGEST_OF_CALLS["position"]
        )

    def _substring(self) -> SqlPart:
        part = self._expression()
        parts = [part]
        while self._take(",", "from", "for"):
            parts.append(self._expression())
        self._need(")")
        return widest(joined(parts * 3), parts)

    def _trim(self) -> SqlPart:
        if self._next.word in ("both", "leading", "trailing") and not self._is_column():
            self._word()
        part = self._expression()
        parts = [part]
        while self._take(",", "from"):
            parts.append(self._expression())
        self._need(")")
        return widest(joined(parts), parts)

    def _normalize(self) -> SqlPart:
        part = self._expression()
        if self._take(","):
            if self._next.word not in sql_words.FORMS:
                raise sql_words.Refused(f"{self._next.text!r} is no form of Unicode", "such as NFC")
            self._word()
        self._need(")")
        return check_growth(grown(widest(joined((part,)), (part,)), part.copies * 18, part.added))

    def _closed(self) -> SqlPart:
        part = self._expression()
        self._need(")")
        return joined((part,))


_SPECIAL: dict[str, Callable[[_Parser], SqlPart]] = {
    "cast": _Parser._cast,
    "try_cast": _Parser._cast,
    "extract": _Parser._extract,
    "normalize": _Parser._normalize,
    "position": _Parser._position,
    "substring": _Parser._substring,
    "trim": _Parser._trim,
}
_REPEATING = "date_part left lpad nullif right rpad split_part substr".split()  # an argument
_AS_DOUBLE = "cast(... as double) computes with floats"
_A_DAY = "write day = {day} into the config, and give --var day=2026-11-20"


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, 2 * mark) + mark
