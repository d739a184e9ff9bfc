"""What a partial was made of; and whether partials were made of the same."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from evalkit.config import Config, is_laid_out
from evalkit.errors import DataError, EvalkitError, raise_all
from evalkit.metrics import Request, digest_of
from evalkit.planning.counters import versions
from evalkit.planning.record import key_of_inputs
from evalkit.planning.work import MeasureOptions, ShareResult
from evalkit.report import Input, Warning_
from evalkit.runs import digest

MOST_NAMED = 3
MOST_SHARES = 1_000_000
NO_NUMBERS = ("name", "output")  # what of a config moves no number


class Definition(NamedTuple):
    """A metric as it was measured, a user's own one too."""

    label: str
    parameters: dict[str, str | float]
    policies: dict[str, str | float]
    digest: str  # of its kernel


def definitions_of(requests: Sequence[Request]) -> tuple[Definition, ...]:
    """What the metrics of a config are, so that two machines can tell whether they agree."""
    return tuple(
        Definition(each.label, dict(each.parameters), dict(each.policies), digest_of(each.metric))
        for each in requests
    )


@dataclass(frozen=True, slots=True)
class Header:
    """What a partial was made of.

    Args:
        config: what was asked for, with the columns that were read.
        definitions: of its metrics.
        versions: of evalkit, and of whatever else the numbers rest on.
        ids: the types of users and of items as keys were made of them.
        sample: share of the users that was drawn.
        n_shares: how many shares the users are in.
        inputs: of each share that is here, from 1: what was read of it.
        keeps_users: values of users are kept.
        keeps_parts: the sums are kept that explain a change.
    """

    config: Config
    definitions: tuple[Definition, ...]
    versions: dict[str, str]
    ids: dict[str, tuple[str, ...]]
    sample: float | None
    n_shares: int
    inputs: dict[int, tuple[Input, ...]]
    keeps_users: bool = False
    keeps_parts: bool = False

    @classmethod
    def of(cls, share_result: ShareResult, measure_options: MeasureOptions) -> "Header":
        """What a share that was measured is made of."""
        number, n_shares = measure_options.share
        return cls(
            config=share_result.config,
            definitions=definitions_of(share_result.config.requests),
            versions=dict(versions()),
            ids=share_result.ids,
            sample=measure_options.sample,
            n_shares=n_shares,
            inputs={number: tuple(share_result.inputs)},
            keeps_users=bool(measure_options.per_user),
            keeps_parts=share_result.keeps_parts,
        )

    def __post_init__(self) -> None:
        if not self.inputs or not 1 <= min(self.inputs) <= max(self.inputs) <= self.n_shares:
            raise ValueError(f"there are {self.n_shares:,} shares, and others are here")
        if self.n_shares > MOST_SHARES:
            raise ValueError(f"there are {self.n_shares:,} shares")

    @property
    def shares(self) -> list[int]:
        """The shares that are here, from 1."""
        return sorted(self.inputs)

    @property
    def missing(self) -> list[int]:
        """The shares that are not."""
        return [share for share in range(1, self.n_shares + 1) if share not in self.inputs]

    @property
    def whole_inputs(self) -> tuple[Input, ...]:
        """The inputs of all shares together: of logs that each share has of its own, their
        paths, and their fingerprints as one."""
        (first, *others) = (self.inputs[share] for share in self.shares)
        return tuple(_together(each) for each in zip(first, *others, strict=True))

    @property
    def key(self) -> str | None:
        """What runs of the same work share; None where an input has no fingerprint."""
        prints = [each.fingerprint for each in self.whole_inputs]
        if None in prints:
            return None
        key = key_of_inputs(self.config, prints, self.sample)
        return digest([key, self.missing]) if self.missing else key

    def _facts(self) -> dict[str, object]:
        """What must be the same of all partials, under the name that an error has for it."""
        facts: dict[str, object] = {
            f"the version of {name}": version
            for name, version in self.versions.items()
            if name != "python"
        }
        asked = self.config.dump()
        facts |= dict(_leaves({key: asked[key] for key in asked if key not in NO_NUMBERS}))
        facts |= {f"the definition of {each.label}": each[1:] for each in self.definitions}
        facts |= {f"the type of {kind} ids": ", ".join(types) for kind, types in self.ids.items()}
        facts["the sample"] = self.sample
        facts["the number of shares"] = self.n_shares
        facts["whether values of users are kept"] = self.keeps_users
        facts["whether sums that explain a change are kept"] = self.keeps_parts
        for table in next(iter(self.inputs.values())):
            if not self._is_own(table):
                name = " ".join(filter(None, (table.role, table.model)))
                facts[f"the content of {name} {', '.join(table.paths)}"] = table.fingerprint
        return facts

    def _is_own(self, table: Input) -> bool:
        """Whether each share reads a table of its own."""
        if not is_laid_out(self.config):
            return False
        written = [each for key, each in _leaves(self.config.dump()) if key.endswith(".path")]
        return list(table.paths) not in written


def _together(inputs: Sequence[Input]) -> Input:
    """One input of each share, as one of all."""
    (first, *others) = inputs
    if all(each.paths == first.paths for each in others):
        return first
    prints = [each.fingerprint for each in inputs]
    return replace(
        first,
        paths=tuple(path for each in inputs for path in each.paths),
        rows=sum(each.rows for each in inputs),
        fingerprint=None if None in prints else digest(prints),
    )


def _leaves(tree: object, place: str = "") -> Iterator[tuple[str, object]]:
    """Every value of a config under its key, `policies.ties`."""
    if isinstance(tree, Mapping):
        for key, each in tree.items():
            yield from _leaves(each, f"{place}.{key}" if place else str(key))
    elif isinstance(tree, list) and any(isinstance(each, dict) for each in tree):
        for number, each in enumerate(tree):
            yield from _leaves(each, f"{place}[{number}]")
    else:
        yield place, tree


def check_headers(headers: Sequence[tuple[str, Header]], *, allow_missing: bool = False) -> Header:
    """The header of all partials put together.

    Args:
        headers: and the name that each has in errors.
        allow_missing: shares may be missing.
    Raises:
        DataError: partials were not made of the same [foreign-partial], hold the same share
            [repeated-share], or are not all there [missing-shares]; all of it at once.
    """
    facts = [each._facts() for _, each in headers]
    texts = [json.dumps(each, sort_keys=True, default=str) for each in facts]
    (usual, _), *_ = Counter(texts).most_common(1)
    first = texts.index(usual)
    problems: list[EvalkitError] = [
        _foreign(headers[place][0], facts[place], headers[first][0], facts[first])
        for place, text in enumerate(texts)
        if text != usual
    ]
    alike = [each for each, text in zip(headers, texts, strict=True) if text == usual]
    seen: dict[int, str] = {}
    for name, header in alike:
        for share in header.shares:
            if share in seen:
                message = f"share {share} of {header.n_shares} stands in {seen[share]} too"
                hint = "give each share once"
                problems.append(DataError(message, code="repeated-share", at=name, hint=hint))
            seen.setdefault(share, name)
    raise_all(problems)
    inputs = {share: known for _, each in alike for share, known in each.inputs.items()}
    whole = replace(alike[0][1], inputs={share: inputs[share] for share in sorted(inputs)})
    if whole.missing and not allow_missing:
        names = [name for name, _ in alike]
        raise DataError(
            _tell(whole),
            code="missing-shares",
            at=", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else ""),
            hint=f"evalkit partial CONFIG --share {whole.missing[0]}/{whole.n_shares} --out FILE; "
            "--allow-missing merges what is there",
        )
    return whole


def missing_warning(header: Header) -> Warning_ | None:
    """What a report says of shares that are missing."""
    if not header.missing:
        return None
    part = len(header.missing) / header.n_shares
    message = f"{_tell(header)}: about {part:.2%} of the users are not measured"
    return Warning_("missing-shares", message)


def _tell(header: Header) -> str:
    verb = "is" if len(header.missing) == 1 else "are"
    return f"{_spell_shares(header.missing)} of {header.n_shares} {verb} missing"


def _spell_shares(shares: Sequence[int]) -> str:
    """`share 3`, or `shares 2, 5-7, 9`."""
    spans: list[list[int]] = []
    for share in shares:
        if spans and spans[-1][-1] == share - 1:
            spans[-1] = [spans[-1][0], share]
        else:
            spans.append([share])
    told = ", ".join("-".join(map(str, span)) for span in spans)
    return f"share{'s' if len(shares) > 1 else ''} {told}"


def _foreign(
    name: str, one: dict[str, object], other_name: str, other: dict[str, object]
) -> DataError:
    keys = [key for key in dict.fromkeys((*one, *other)) if one.get(key) != other.get(key)]
    told = [
        f"{key} is {_shown(one, key)}, and {_shown(other, key)} in {other_name}"
        for key in keys[:MOST_NAMED]
    ]
    if len(keys) > MOST_NAMED:
        told.append(f"{len(keys) - MOST_NAMED} more differ")
    message = "partials of different work: " + "; ".join(told)
    hint = "merge the partials of one config, one set of inputs and one version"
    return DataError(message, code="foreign-partial", at=name, hint=hint)


def _shown(facts: Mapping[str, object], key: str) -> str:
    if key not in facts:
        return "not there"
    if key.startswith("the definition of"):
        return "another one"
    text = repr(facts[key])
    return text if len(text) <= 60 else f"{text[:60]}..."
