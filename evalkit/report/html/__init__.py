"""One page that needs nothing else: no network, no tracking, and no script to be complete."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from evalkit.report.figures import Figures, Plot
from evalkit.report.html._detail import (
    curves_section,
    graphs_section,
    matrix_section,
    shown_section,
)
from evalkit.report.html._drawn import DrawnPlot, collecting
from evalkit.report.html._experiment import checks_section
from evalkit.report.html._leakage import leakage_body
from evalkit.report.html._logged import weights_section
from evalkit.report.html._markup import Child, Html, el, join, raw
from evalkit.report.html._origin import data_section, origin_section
from evalkit.report.html._overview import (
    changes_section,
    findings_section,
    metric_plot,
    models_section,
    verdict_section,
)
from evalkit.report.html._segments import gaps_section, segments_section
from evalkit.report.html._style import FIXED_STYLE, PLOT_STYLE, POLICY, SCRIPT, STYLE
from evalkit.report.html._trade import trade_section
from evalkit.report.html._trends import index_body, trend_body
from evalkit.report.html._users import users_section
from evalkit.report.record import Report, of_all_users
from evalkit.report.shown import as_shown
from evalkit.report.text import units_of
from evalkit.report.trend import PastRun, Trend

if TYPE_CHECKING:
    from evalkit.report.across import Across
    from evalkit.report.selection import Selection
    from evalkit.report.surrogates import Surrogates

_LINKS = (
    *(
        ("changes", "Changes"),
        ("checks", "Checks"),
        ("models", "Models"),
        ("weights", "Weights"),
        ("trade", "What it costs"),
    ),
    ("shown", "What was shown"),
    *(("cutoffs", "Cutoffs"), ("graphs", "Curves"), ("findings", "Findings")),
    *(("segments", "Segments"), ("users", "Single users"), ("pairs", "Pairs")),
    *(("data", "Data"), ("origin", "Origin")),
)


def render_html(report: Report) -> str:
    """The report as one HTML file: verdict first, then numbers, then where they come from."""
    sections = _sections(report)
    body = join(each for each in sections if each is not None)
    names = {**dict(_LINKS), "users": f"Single {units_of(report)}"}
    links = [el("a", name, href=f"#{at}") for at, name in names.items() if f'id="{at}"' in body]
    past = el("a", "all runs", href="../index.html")
    history = join(past, " (written by evalkit history html)")
    about = f"run {report.run_id} · {report.meta.started} · profile {report.profile}"
    return _page(
        report.name,
        el("a", "Skip to the numbers", class_="skip", href="#numbers"),
        el("header", el("h1", report.name), el("p", about, class_="soft")),
        verdict_section(report),
        el("nav", links),
        el("main", body, id="numbers"),
        el("footer", el("p", el("small", f"evalkit {report.evalkit} · ", history))),
    )


def _sections(report: Report, *, whole: bool = False) -> list[Html | None]:
    models = [
        models_section(report),
        weights_section(report),
        trade_section(report),
        shown_section(report),
        curves_section(report),
    ]
    parts = [
        graphs_section(report),
        findings_section(report),
        segments_section(report, whole=whole),
    ]
    first, second = (parts, models) if report.kind == "experiment" else (models, parts)
    return [
        changes_section(report),
        checks_section(report),
        *first,
        *second,
        gaps_section(report),
        users_section(report, whole=whole),
        matrix_section(report),
        data_section(report),
        origin_section(report),
    ]


def render_trends(trends: Sequence[Trend]) -> str:
    """A page with one metric over the runs of every job."""
    metric = trends[0].metric
    return _headed(f"{metric} over time", trend_body(trends))


def render_index(runs: Sequence[PastRun], trends: Sequence[Trend] = ()) -> str:
    """A page over all runs of a folder, and the trends of each job's deciding metric."""
    return _headed("Past runs", index_body(runs, trends))


def render_across_page(across: "Across") -> str:
    """A page of models over several data sets, with the critical-difference diagram."""
    from evalkit.report.html._across import across_body

    title = f"{across.metric} over {len(across.sets)} data sets"
    return _headed(title, across_body(across))


def render_surrogates(found: "Surrogates") -> str:
    """A page of past experiments: what offline metrics said of them, and what gates did."""
    from evalkit.report.html._surrogates import surrogates_body

    return _headed("Offline to online", surrogates_body(found))


def render_selection_page(selection: "Selection") -> str:
    """A page with the trials of a selection, the race, and what the winner is worth."""
    from evalkit.report.html._selection import selection_body

    return _page(
        selection.name,
        el("header", el("h1", selection.name), el("p", selection.selection_id, class_="soft")),
        el("main", selection_body(selection)),
        el("footer", el("p", el("small", f"evalkit {selection.evalkit}"))),
    )


def plot_of(report: Report, label: str) -> Plot:
    """One metric over all users, models from best to worst."""
    found = [each for each in of_all_users(report).estimates if each.metric == label]
    shown = report.shown.get(label, label)
    with collecting() as drawn:
        metric_plot(report, found, f"{shown} of every model")
    return _plot(drawn[0], report.models)


def figures_of(report: Report) -> Figures:
    """Every picture of the page by its title; a number behind it where one comes again."""
    shown = as_shown(report)
    return _figures(lambda: _sections(shown, whole=True), shown.models)


def across_figures(across: "Across") -> Figures:
    """The critical-difference diagram."""
    from evalkit.report.html._across import across_body

    return _figures(lambda: across_body(across))


def selection_figures(selection: "Selection") -> Figures:
    """The pictures of a selection's page."""
    from evalkit.report.html._selection import selection_body

    return _figures(lambda: selection_body(selection))


def leakage_figures(leaks: Mapping[str, Any]) -> Figures:
    """The pictures of a split's page."""
    return _figures(lambda: leakage_body(leaks))


def trend_figures(trends: Sequence[Trend]) -> Figures:
    """Metrics of jobs over time; the job stands before the title where there are several."""
    jobs, found = dict.fromkeys(each.job for each in trends), Figures()
    for job in jobs:
        of = [each for each in trends if each.job == job]
        made = _figures(partial(trend_body, of))
        found |= {f"{job}: {title}" if len(jobs) > 1 else title: made[title] for title in made}
    return found


def _figures(draw: Callable[[], object], models: Sequence[str] = ()) -> Figures:
    """All that is drawn, by title; a number behind it where one comes again."""
    figures = Figures()
    with collecting() as drawn:
        draw()
    for each in drawn:
        again = sum(title.partition(" #")[0] == each.title for title in figures)
        figures[f"{each.title} #{again + 1}" if again else each.title] = _plot(each, models)
    return figures


def _plot(drawn: DrawnPlot, models: Sequence[str]) -> Plot:
    """SVG that stands alone, with what it draws; series of dots are told by their models."""
    head, _, rest = drawn.svg.partition(">")
    style = el("style", raw(PLOT_STYLE))
    plot = Plot(f'{head} class="evalkit" xmlns="http://www.w3.org/2000/svg">{style}{rest}')
    plot.kind, plot.caption = drawn.kind, drawn.title
    white = '</style><rect width="100%" height="100%" fill="#fff"/>'
    plot.fixed = plot.replace(PLOT_STYLE, FIXED_STYLE).replace("</style>", white, 1)
    named = ((row, row.get("model")) for row in drawn.rows)
    plot.rows = tuple(
        {**row, "model": models[at]} if isinstance(at, int) and at < len(models) else row
        for row, at in named
    )
    return plot


def render_leakage(title: str, leaks: Mapping[str, Any]) -> str:
    """A page with what a split gives away, as `leakage.json` tells it, and its plots."""
    return _headed(f"{title}: leakage", leakage_body(leaks))


def _headed(title: str, body: Child) -> str:
    return _page(title, el("header", el("h1", title)), el("main", body))


def _page(title: str, *body: Html) -> str:
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("link", rel="icon", href="data:,"),
        el("title", title),
        el("style", raw(STYLE)),
    )
    inside = el("body", *body, el("script", raw(SCRIPT)))
    return f"<!doctype html>\n{el('html', head, inside, lang='en')}\n"
