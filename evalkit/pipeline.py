"""The whole way on one screen: config, tables, shares measured and merged, report."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from evalkit.config import Config, reads_catalogs, refuse_layout, speaking
from evalkit.errors import RequestError
from evalkit.kinds import kind_of
from evalkit.planning.record import key_of_inputs
from evalkit.planning.tables import Given, reading_as
from evalkit.planning.work import MeasureArguments, MeasureOptions, ShareResult, run_within
from evalkit.report import Report

if TYPE_CHECKING:
    from evalkit.planning.partials import Partial, PartialFiles


def run_config(config: Config, **options: Unpack[MeasureArguments]) -> Report:
    """The report of a config, measured as `MeasureOptions` says.

    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
        MachineError: no split holds the memory limit [memory-limit].
    """
    measure_options = MeasureOptions.of_run(**options)
    with reading_as(config):
        refuse_layout(config)
        if config.engine.kind == "spark":
            _refuse_judgements(config, "measure in this process: --engine local")
            from evalkit.engines import run_on_spark

            return run_on_spark(config, measure_options)
        run = partial(run_within, kind_of(config).run)
        if config.truth is not None and config.truth.judgements is not None:
            from evalkit.kinds.judges.judged_truth import run_judged  # no other run needs it

            return run_judged(config, measure_options, run)
        return run(config, measure_options)


def measure_partial(
    config: Config, share: tuple[int, int], **options: Unpack[MeasureArguments]
) -> "Partial[Any]":
    """What one share of the users leaves behind, to be merged with the others.

    Args:
        share: which one, from 1, and how many there are.
        options: as `MeasureOptions` says; sums that `evalkit why` explains a change by are kept.
    Raises:
        RequestError, DataError, MachineError: as `run_config`, of what one share can tell.
    """
    from evalkit.planning.partials import Header, Partial  # no run of one share needs them

    if config.engine.kind != "local":
        raise RequestError(
            f"one share is measured in this process, and the config names {config.engine.kind}",
            code="conflicting-keys",
            at=config.at("engine", "kind"),
            hint='kind = "local" under [engine]; evalkit run --engine spark takes all shares',
        )
    _refuse_judgements(config, "evalkit run CONFIG; or path = ... of a truth that [judges] wrote")
    options.setdefault("keep_parts", True)
    measure_options = MeasureOptions(share=share, **options)
    with reading_as(config):
        share_result = run_within(kind_of(config).measure, config, measure_options)
        return Partial(Header.of(share_result, measure_options), share_result.sums)


def _refuse_judgements(config: Config, hint: str) -> None:
    """Judges are left out in turn, which takes all users at once.

    Raises:
        RequestError: the truth is made of judgements [conflicting-keys].
    """
    if config.truth is not None and config.truth.judgements is not None:
        raise RequestError(
            "judgements are measured whole: leaving out a judge moves every share",
            code="conflicting-keys",
            at=config.at("truth", "judgements"),
            hint=hint,
        )


def conclude_partials(
    partials: "PartialFiles | Partial[Any]", **options: Unpack[MeasureArguments]
) -> Report:
    """The report of all shares, as `run_config` gives it of all users at once.

    Args:
        options: as `run_config` takes them, of what was kept.
    Raises:
        RequestError: values of users were not kept [values-not-kept].
        DataError: the data of any share, or of the whole, is wrong.
    """
    from evalkit.planning.partials import PartialFiles, fitting, missing_warning

    header = partials.header
    config, warning = header.config, missing_warning(header)
    options.setdefault("keep_parts", True)
    options["sample"] = header.sample
    measure_options = MeasureOptions.of_run(**options)
    if measure_options.per_user and not header.keeps_users:
        raise RequestError(
            "the partials hold no values of users",
            code="values-not-kept",
            at="--per-user" if measure_options.per_user_folder else "per_user",
            hint="evalkit partial CONFIG --share I/N --out FILE --per-user keeps them",
        )
    with speaking(config.entry_point), fitting(partials):
        kind = kind_of(config)
        whole = partials.merged(kind.sums) if isinstance(partials, PartialFiles) else partials
        share_result = ShareResult(config, header.ids, header.whole_inputs, whole.body)
        report = kind.conclude(
            share_result, measure_options, () if warning is None else (warning,), None
        )
    return replace(report, run_key=header.key or report.run_key) if header.missing else report


def key_of_run(config: Config, *, sample: float | None = None) -> str | None:
    """The run key that the report of a config would have now; None where an input has no
    fingerprint. Of Parquet files the footers alone are read.

    Raises:
        RequestError, DataError: as `run_config` does for what can be seen without reading rows.
    """
    with reading_as(config):
        if config.engine.kind == "spark" and reads_catalogs(config):
            from evalkit.engines import open_catalogs

            opened = open_catalogs(config)
        else:
            opened = kind_of(config).open(config, Given())
    fingerprints = [table.fingerprint() for table in opened.all]
    return None if None in fingerprints else key_of_inputs(opened.config, fingerprints, sample)
