"""What is told of an error, whatever stands in it, and how errors of shares add up."""

import itertools
import pickle

import pytest

from evalkit.errors import (
    BusyError,
    CountedError,
    DataError,
    Errors,
    Faults,
    FaultyShareError,
    MachineError,
    RequestError,
    clean,
    masked,
    raise_all,
)


def counted(n: int, *users: int, at: str = "truth") -> CountedError:
    ids = [(user,) for user in users]
    return CountedError("{n} rows are odd", n, code="odd", at=at, hint="mend them", users=ids)


def test_an_error_is_three_lines_and_leaves_out_what_is_empty():
    whole = DataError("no such file", code="missing-file", at="a.csv", hint="write it")

    assert str(whole) == "error[missing-file]: no such file\n  at:   a.csv\n  hint: write it"
    assert (
        str(DataError("no such file", code="missing-file")) == "error[missing-file]: no such file"
    )


def test_names_of_the_data_make_no_line_and_no_control_character():
    error = DataError("column 'a\nerror[x]: b\x1b[2J'", code="odd-name", at="one\ntwo")

    assert str(error).splitlines() == [
        "error[odd-name]: column 'a error[x]: b\ufffd[2J'",
        "  at:   one two",
    ]
    assert clean("é–ø") == "é–ø"
    assert clean("a\u202eb\u2028c") == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:pass@bucket/a", "s3://***@bucket/a"),
        ("https://host/a?sig=abc&page=2", "https://host/a?sig=***&page=2"),
        ("https://host/a?page=2", "https://host/a?page=2"),
        ("user@host and key=1", "user@host and key=1"),
    ],
)
def test_an_error_shows_no_secret_of_a_url(text, shown):
    error = MachineError(text, code="store", at=text, hint=text)

    assert masked(text) == shown
    assert (error.message, error.at, error.hint) == (shown, shown, shown)


def test_several_errors_are_told_in_order_with_the_least_exit_status():
    one, two, three = (
        kind(kind.__name__, code="c") for kind in (DataError, RequestError, MachineError)
    )

    together = Errors([Errors([one, two]), three])

    assert together.errors == (one, two, three)
    assert str(together) == f"{one}\n{two}\n{three}"
    assert [each.exit_status for each in (one, two, three, together)] == [3, 2, 4, 2]
    assert BusyError("wait", code="busy").exit_status == 75


def test_raise_all_raises_the_one_all_or_nothing():
    one, two = DataError("one", code="c"), DataError("two", code="c")

    raise_all([])
    with pytest.raises(DataError, match="one") as alone:
        raise_all([one])
    with pytest.raises(Errors) as both:
        raise_all([one, two])

    assert alone.value is one
    assert both.value.errors == (one, two)


@pytest.mark.parametrize(
    "error",
    [
        RequestError("wrong", code="c", at="here", hint="do"),
        counted(1234, 3, 1, 2, 4),
        Errors([DataError("one", code="a"), counted(2, 5)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_whole_out_of_another_process(error):
    back = pickle.loads(pickle.dumps(error))

    assert type(back) is type(error)
    assert (str(back), back.exit_status) == (str(error), error.exit_status)


def test_cases_of_two_shares_add_up_and_the_smallest_users_are_named():
    one, other = counted(1200, 9, 4), counted(34, 7, 2)

    joined = one.joined(other)

    assert str(joined) == (
        "error[odd]: 1,234 rows are odd\n  at:   truth: user 2, user 4, user 7\n  hint: mend them"
    )
    assert str(other.joined(one)) == str(joined)


def faults_of(*found: tuple[int, DataError]) -> Faults:
    """A share that ends at the first of its steps that fails."""
    faults = Faults()
    for number, error in found:
        try:
            with faults.step(number):
                raise error
        except FaultyShareError:
            pass
    return faults


def test_no_order_of_shares_changes_what_is_told_and_the_earliest_step_counts():
    def shares():
        return [
            faults_of((2, counted(5, 8))),
            faults_of((1, counted(3, 6))),
            faults_of((1, counted(4, 1))),
            faults_of(),
        ]

    told = set()
    for order in itertools.permutations(range(4)):
        every, whole = shares(), Faults()
        for place in order:
            whole.merge(Faults.of_state(every[place].state()))  # by way of a file
        with pytest.raises(CountedError) as error:
            whole.tell()
        told.add(str(error.value))

    assert told == {"error[odd]: 7 rows are odd\n  at:   truth: user 1, user 6\n  hint: mend them"}


def test_a_share_need_not_look_behind_the_step_where_another_one_failed():
    later = Faults(stop_step=(1,))

    with pytest.raises(FaultyShareError), later.step(2):
        raise AssertionError("nobody looks there")

    later.tell()  # has found nothing itself
    assert later.first == (1,)
    assert not later
