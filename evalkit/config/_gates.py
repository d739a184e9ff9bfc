"""What a gate must say: one quantity, one bound, and a baseline where it compares."""

from collections.abc import Mapping
from datetime import date

from evalkit.config._checks import known_models
from evalkit.config._named import combined_in, labels_of, requests_named
from evalkit.config._places import Key, table_in
from evalkit.config._problems import Problems
from evalkit.config._tables import SPAN
from evalkit.errors import did_you_mean
from evalkit.metrics import is_gmean

BOUNDS = ("min", "max", "max_drop", "max_drop_relative", "max_change")
_OF_TRUTH = ("pairs", "age")  # counts of the truth alone
_SHARES = ("rows_dropped", "users_without_ranking", "users_without_truth", "duplicates")


def check_gates(
    tree: Mapping[str, object], variables: Mapping[str, str], problems: Problems
) -> None:
    """Gates that can be judged: of what is measured, with one bound each."""
    gates = tree.get("gates")
    if not isinstance(gates, list):
        return
    for number, gate in enumerate(gates):
        if isinstance(gate, dict):
            key: Key = ("gates", number)
            check_form(gate, key, problems)
            _check_share(gate, key, problems)
            _check_metric(gate, key, tree, problems)
            _check_model(gate, key, tree, problems)
            _check_segment(gate, key, tree, problems)
            if gate.get("data") == "age":
                _check_age(key, tree, variables, problems)


def _check_age(
    key: Key, tree: Mapping[str, object], variables: Mapping[str, str], problems: Problems
) -> None:
    """There is a truth whose rows have a time, and {day} is a day."""
    if not {"truth", "log"} & tree.keys():
        message, hint = "age is that of the truth, and there is none", "path = ... under [truth]"
        problems.add((*key, "data"), "missing-input", message, hint=hint)
    day = variables.get("day", "2026-01-31")
    try:
        date.fromisoformat(day)
    except ValueError:
        message = f"age counts from {{day}}, and {day!r} is no date"
        problems.add((*key, "data"), "bad-var", message, hint="--var day=2026-01-31")


def check_form(gate: Mapping[str, object], key: Key, problems: Problems) -> None:
    """A gate judges one thing by one bound."""
    _check_quantity(gate, key, problems)
    _check_bound(gate, key, problems)


def _check_quantity(gate: Mapping[str, object], key: Key, problems: Problems) -> None:
    if ("metric" in gate) == ("data" in gate):
        is_both = "metric" in gate
        message = "metric and data exclude each other" if is_both else "the gate judges nothing"
        hint = 'metric = "nDCG@10", or data = "users_without_ranking"'
        problems.add(key, "conflicting-keys" if is_both else "missing-key", message, hint=hint)


def _check_bound(gate: Mapping[str, object], key: Key, problems: Problems) -> None:
    given = [name for name in BOUNDS if name in gate]
    if len(given) != 1:
        message = f"{' and '.join(given)} exclude each other" if given else "the gate has no bound"
        hint = f"give one of {', '.join(BOUNDS)}; two bounds are two gates"
        problems.add(key, "conflicting-keys" if given else "missing-key", message, hint=hint)
        return
    bound = given[0]
    _check_unit(gate, key, bound, problems)
    compares = bound in ("max_drop", "max_change")
    if compares and "baseline" not in gate:
        hint = 'baseline = "last", or a tag, a run or a model'
        problems.add((*key, bound), "missing-key", f"{bound} compares with nothing", hint=hint)
    if not compares and bound != "max_drop_relative" and "baseline" in gate:
        message = f"{bound} is a fixed bound and needs no baseline"
        hint = "max_drop or max_change compare with one"
        problems.add((*key, "baseline"), "conflicting-keys", message, hint=hint)
    wrong = {"max_drop": "data", "max_drop_relative": "data", "max_change": "metric"}.get(bound)
    if wrong is not None and wrong in gate:
        other = "max_change" if bound == "max_drop" else "max_drop"
        message = f"{bound} does not go with {wrong}"
        problems.add((*key, bound), "conflicting-keys", message, hint=f"write {other} = ...")


def _check_share(gate: Mapping[str, object], key: Key, problems: Problems) -> None:
    """No share is above 1: a count is meant."""
    for bound in ("min", "max") if gate.get("data") in _SHARES else ():
        size = gate.get(bound)
        if isinstance(size, int | float) and size > 1.0:
            message = f"{gate['data']} is a share, which is never above 1, and {size:g} is"
            problems.add((*key, bound), "out-of-range", message, hint="0.05 are 5 %")


def _check_unit(gate: Mapping[str, object], key: Key, bound: str, problems: Problems) -> None:
    """The bound of an age has a unit, and no other has one."""
    is_age, is_span = gate.get("data") == "age", isinstance(gate[bound], str)
    if is_age and not (is_span and bound in ("min", "max")):
        message, hint = f"{bound} of age is no span of time", 'max = "2d", or in hours "36h"'
        problems.add((*key, bound), "out-of-range", message, hint=hint)
    elif is_span and not is_age and SPAN.fullmatch(str(gate[bound])):
        message = f"{gate[bound]!r} is a span of time, and {gate.get('metric', gate.get('data'))}"
        hint = "leave the unit out"
        problems.add((*key, bound), "wrong-type", f"{message} is none", hint=hint)


def _check_metric(
    gate: Mapping[str, object], key: Key, tree: Mapping[str, object], problems: Problems
) -> None:
    metric, names = gate.get("metric"), table_in(tree, "metrics").get("names")
    if not isinstance(metric, str) or not isinstance(names, list):
        return
    measured = [label for name in names for label in labels_of([name], tree)]  # one may be wrong
    measured += [name for name in names if isinstance(name, str)]
    measured += combined_in(tree)
    found = labels_of([metric], tree) or [metric]
    if len(found) > 1 or found[0] not in measured:
        problems.add(
            (*key, "metric"),
            "metric-not-measured",
            f"{metric!r} is {len(found)} metrics, a gate judges one"
            if len(found) > 1
            else f"{found[0]} is not among metrics.names",
            hint=did_you_mean(found[0], measured, "add it there"),
        )
    for request in requests_named([metric], tree) if "max_drop" in gate else ():
        if request.metric.higher_is_better is None:
            message = f"{request.label} has no better direction, so that it cannot drop"
            hint = "give min and max, in two gates"
            problems.add((*key, "max_drop"), "conflicting-keys", message, hint=hint)
        elif is_gmean(request):
            message = f"differences of {request.label} are ratios"
            hint = 'max_drop_relative = 0.01 and baseline = "MODEL"'
            problems.add((*key, "max_drop"), "conflicting-keys", message, hint=hint)


def _check_model(
    gate: Mapping[str, object], key: Key, tree: Mapping[str, object], problems: Problems
) -> None:
    known = known_models(tree, problems)
    model = gate.get("model")
    if model is not None and gate.get("data") in _OF_TRUTH:
        message, hint = f"{gate['data']} is of the truth, not of a model", "leave model out"
        problems.add((*key, "model"), "conflicting-keys", message, hint=hint)
    if isinstance(model, str) and known and model not in known:
        problems.add(
            (*key, "model"),
            "unknown-model",
            f"no model is called {model!r}",
            hint=did_you_mean(model, known, f"there is {', '.join(known)}"),
        )
    baseline = gate.get("baseline")
    if "max_drop_relative" in gate and isinstance(baseline, str) and known:
        if baseline not in known and not baseline.startswith("("):
            message = f"max_drop_relative compares with a model, and none is called {baseline!r}"
            hint = did_you_mean(baseline, known, "max_drop compares with a run")
            problems.add((*key, "baseline"), "unknown-model", message, hint=hint)
    if gate.get("data") in _OF_TRUTH and baseline in (known or ()):
        message = f"{gate['data']} is of the truth, and {baseline!r} is a model"
        hint = 'baseline = "last" compares with the last run'
        problems.add((*key, "baseline"), "conflicting-keys", message, hint=hint)
    if model is not None and model == baseline:
        problems.add(
            (*key, "baseline"),
            "conflicting-keys",
            "a model is not compared with itself",
            hint='baseline = "last" compares with the last run',
        )


def _check_segment(
    gate: Mapping[str, object], key: Key, tree: Mapping[str, object], problems: Problems
) -> None:
    segment = gate.get("segment")
    if not isinstance(segment, str):
        return
    rules = table_in(tree, "segments").items()
    named = [name for name, rule in rules if isinstance(rule, dict)]
    rule, equals, _ = segment.partition("=")
    if not equals:
        hint = 'write segmentation=segment, as segment = "activity=new"'
        problems.add((*key, "segment"), "out-of-range", f"{segment!r} is no segment", hint=hint)
    elif not set(rule.split(" & ")) <= set(named):
        message = f"no segmentation is called {rule!r}"
        hint = did_you_mean(rule, named, "[segments] makes them")
        problems.add((*key, "segment"), "unknown-segment", message, hint=hint)
    if "data" in gate:
        message = "counts are not known by segment"
        hint = "leave segment out, or judge a metric"
        problems.add((*key, "segment"), "conflicting-keys", message, hint=hint)
