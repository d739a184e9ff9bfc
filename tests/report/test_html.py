"""The page: complete, small, safe with any name, and whole in a real browser."""

import math
import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from browser import find_browser, open_browser
from pages import page_report

from evalkit.report import Report, Warning_, render
from evalkit.report.html import render_html, render_trends
from evalkit.report.html._plots import Line, Mark, Row, curve_plot, dot_plot
from evalkit.report.text import display_width
from evalkit.report.trend import Point, Trend
from evalkit.report.verdict import render_prometheus, summarize

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title><svg onload=alert(1)>",
    "javascript:alert(1)",
    "=cmd|' /C calc'!A0",
    "../../etc/passwd",
    "a\x00b\x1b[31mc\u202ed\ud800",
    "{{7*7}} ${7*7} <%= 7 %>",
)


class Page(HTMLParser):
    """What stands in a page: elements with their attributes, and which are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def hostile_report() -> Report:
    report = page_report(3, 5, 4)
    names = dict(zip(report.models, HOSTILE, strict=False))
    segments = dict(
        zip(dict.fromkeys(e.segment for e in report.estimates if e.segment), HOSTILE, strict=False)
    )
    return replace(
        report,
        name=HOSTILE[0],
        estimates=tuple(
            replace(each, model=names[each.model], segment=segments.get(each.segment, each.segment))
            for each in report.estimates
        ),
        counts=replace(
            report.counts,
            models={names[model]: counts for model, counts in report.counts.models.items()},
        ),
        comparisons=tuple(
            replace(each, baseline=names[each.baseline], candidate=names[each.candidate])
            for each in report.comparisons
        ),
        gates=tuple(replace(each, message=HOSTILE[1], model=HOSTILE[2]) for each in report.gates),
        inputs=tuple(replace(each, paths=HOSTILE) for each in report.inputs),
        warnings=(Warning_(HOSTILE[0], HOSTILE[1], HOSTILE[2]),),
        config=dict.fromkeys(HOSTILE, HOSTILE[0]),
        standings=(),
        curves=(),
        distributions=(),
        graphs=tuple(replace(each, model=names[each.model]) for each in report.graphs),
    )


def test_ten_models_twenty_metrics_fifty_segments_stay_below_150_kb():
    report = page_report(10, 50, 20)
    more = {"family": "exploratory", "p_equivalent": 0.5, "p_not_inferior": 0.4}
    more |= {"low_adjusted": -0.123, "high_adjusted": 0.1, "low_margin": -0.1, "high_margin": 0.123}
    report = replace(report, comparisons=[replace(each, **more) for each in report.comparisons])

    assert len(render_html(report).encode()) < 150_000


def test_every_element_is_closed_and_nothing_is_loaded():
    page = Page(render_html(page_report()))

    assert page.open == []
    assert not [tag for tag, _ in page.elements if tag in ("img", "iframe", "object", "embed")]
    links = {a.get("href") for tag, a in page.elements if tag in ("a", "link")}
    compared = "../20261120-030000-000-aaaaaa/report.html"  # the run that a gate looked at
    assert all(
        link in ("data:,", compared, "../index.html") or link.startswith("#") for link in links
    )
    assert not any(name in a for _, a in page.elements for name in ("style", "onclick", "onload"))


def test_every_link_leads_somewhere():
    page = Page(render_html(page_report()))

    ids = [a["id"] for _, a in page.elements if "id" in a]
    links = [a["href"][1:] for tag, a in page.elements if tag == "a" and a["href"][0] == "#"]
    assert len(ids) == len(set(ids))
    assert set(links) == set(ids)
    assert len(links) == 10


def test_every_plot_has_a_title_and_words_and_most_a_table():
    text = render_html(page_report())

    plots = re.findall(r"<svg [^>]*role=\"img\".*?</svg>", text)
    assert len(plots) > 10
    assert all("<title>" in each and "<desc>" in each and "aria-label=" in each for each in plots)
    figures = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    with_table = [each for each in figures if "<table" in each]
    assert len(figures) - len(with_table) <= 6  # of the models and changes, whose table is above


def test_verdict_comes_first():
    text = render_html(page_report())

    body = text[text.index("<body>") :]
    assert body.index("Failed: 2 of 3 gates") < body.index("<h2")
    assert body.index("<h2") < body.index('id="origin"')


def test_many_gates_are_told_in_few_words():
    report = page_report()
    failed, passed = (
        next(each for each in report.gates if (each.outcome == "pass") is is_pass)
        for is_pass in (False, True)
    )
    text = render_html(replace(report, gates=(failed,) * 5 + (passed,) * 9))

    verdict = text[text.index('class="verdict') : text.index("9 gates passed</summary>")]
    assert verdict[: verdict.index("</p>")].count(failed.message) == 3
    assert "2 more below." in verdict
    assert verdict.count("<td><b") == 5


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_screen_holds_its_columns_and_says_what_is_better(width):
    plain = replace(page_report(), gates=(), primary=("nDCG@10",), config={})

    for report in (plain, hostile_report(), page_report(10, 50)):
        lines = render(report, "screen", width=width).splitlines()

        assert all(display_width(line) <= width for line in lines)
        assert len(lines) < 70 or width < 80
        assert "\x1b" not in "".join(lines)
    said = " ".join(render(plain, "screen", width=width).split())
    assert "by nDCG@10, ease, als and item-knn are better than popularity, ease by +0." in said
    assert "popularity" in said
    assert "--full" in said


def test_sections_without_data_are_left_out(make_report, make_estimate):
    text = render_html(make_report([make_estimate("als", "nDCG@10", 0.25)]))

    found = set(re.findall(r'<h2 id="(\w+)"', text))
    assert found == {"models", "data", "origin"}
    assert "By nDCG@10, als is at 0.25" in text


def test_the_first_sentence_says_what_is_better_without_gates():
    report = replace(page_report(), gates=(), primary=("nDCG@10",))

    text = render_html(report)

    verdict = re.search(r'<p class="verdict pass">(.*?)<small>', text)
    assert verdict
    assert verdict[1].startswith("By nDCG@10, ease, als and item-knn are better than popularity")
    rows = re.findall(r'<th scope="row">(.*?)</th>', text[text.index('<h2 id="models"') :])
    assert rows[:4] == ["ease", "als", "item-knn", "popularity"]


def test_report_without_numbers_is_a_page(make_report):
    assert Page(render_html(make_report([]))).open == []


def test_undefined_values_are_a_page(report):
    text = render_html(report)

    assert Page(text).open == []
    assert not re.search(r"\bnan\b", re.sub("<script>.*", "", text, flags=re.DOTALL))


def test_values_without_an_interval_are_drawn_without_one():
    marks = (Mark(0.5, 0.4, 0.6), Mark(0.2, math.nan, math.nan), Mark(0.3, None, None))
    line = Line("a", 0, (1, 2, 3), (0.1, 0.2, 0.3), (0.0, math.nan, 0.1), (0.2, math.nan, 0.5))

    for plot in (dot_plot([Row("all", marks)], "values"), curve_plot([line], "curve", "cutoff")):
        drawn = re.findall(r' d="([^"]*)"', str(plot))
        assert drawn
        assert all(re.fullmatch(r"[-MLHVhZz0-9. ]+", each) for each in drawn)


def test_hostile_names_are_text():
    text = render_html(hostile_report())
    page = Page(text)

    assert page.open == []
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert not any(name.startswith("on") for _, a in page.elements for name in a)
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert "\x1b" not in text
    assert "\x00" not in text
    text.encode()


@pytest.mark.parametrize("format", ["table", "json", "csv", "markdown", "latex", "html"])
def test_hostile_names_are_harmless_in_every_format(format):
    text = render(hostile_report(), format)

    assert not any(each in text for each in ("\x1b", "\x00"))
    text.encode("utf-8")
    if format == "csv":
        assert not re.search(r'(^|,)"?[=+@]', text, re.MULTILINE)
    if format == "markdown":
        assert "<script" not in text
        assert "<img" not in text
    if format == "latex":
        body = [line for line in text.splitlines() if not line.startswith("%")]
        assert not [line for line in body if re.search(r"(?<!\\)[$#_%](?!\^\{\\dagger)", line)
                    and "$^{\\dagger}$" not in line]  # fmt: skip


def test_hostile_names_are_harmless_in_a_line_a_text_file_and_a_notebook():
    report = hostile_report()

    line = summarize(report, path="runs/x")
    assert len(line.splitlines()) == 1
    samples = [each for each in render_prometheus(report).splitlines() if each[:1] != "#"]
    sample = r'evalkit_[a-z_]+\{([a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*\} [-+0-9.eNaInf]+'
    assert all(re.fullmatch(sample, each) for each in samples)
    assert "\x1b" not in line + "".join(samples)
    notebook = Page(report._repr_html_())
    assert not [tag for tag, _ in notebook.elements if tag in ("script", "img", "svg")]


def test_trends_are_a_page():
    points = tuple(
        Point(f"run-{n}", "2026-11-21T03:00:00Z", n / 10, n / 10 - 0.01, n / 10 + 0.01, 9, n != 2)
        for n in range(1, 5)
    )
    trend = Trend("<b>job", "nDCG@10", "<i>als", None, None, points)

    page = Page(text := render_trends([trend, replace(trend, model="other", points=points[:1])]))

    assert page.open == []
    assert "<b>job" not in text
    assert text.count('scope="row"') == 4


# In a browser.


@pytest.fixture(scope="module")
def browser():
    if find_browser() is None:
        message = "no Chromium here: EVALKIT_TEST_BROWSER names one"
        pytest.fail(message) if os.environ.get("EVALKIT_NEEDS_BROWSER") else pytest.skip(message)
    with open_browser() as opened:
        yield opened


def page_at(tmp_path, report: Report):
    path = tmp_path / "report.html"
    path.write_text(render_html(report), encoding="utf-8")
    return path


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_page_in_a_browser(browser, tmp_path, width, dark):
    path = page_at(tmp_path, page_report())

    browser.show(path, width=width, dark=dark)

    assert browser.requests == []
    assert browser.complaints == []
    assert browser.run("document.documentElement.scrollWidth") == width
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert browser.run("document.querySelectorAll('button.sort').length") > 10
    shots = tmp_path / "page.png"
    browser.shoot(shots)
    assert shots.stat().st_size > 50_000


def test_page_without_scripts_is_complete(browser, tmp_path):
    path = page_at(tmp_path, page_report())
    browser.show(path)
    with_scripts = browser.run("document.body.innerText.replace(/\\s/g, '').length")

    browser.show(path, scripts=False)

    root = browser.call("DOM.getDocument", depth=-1)["root"]
    text = browser.call("DOM.getOuterHTML", nodeId=root["nodeId"])["outerHTML"]
    assert browser.requests == []
    assert browser.complaints == []
    assert "button" not in re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)
    assert text.count("<table") == render_html(page_report()).count("<table")
    assert with_scripts > 1_000


def test_a_table_sorts_by_a_click(browser, tmp_path):
    browser.show(page_at(tmp_path, page_report()))
    names = "[...document.querySelectorAll('#models ~ .scroll tbody')][0].innerText"
    first = "document.querySelector('#models ~ .scroll button.sort:nth-of-type(1)')"

    before = browser.run(names)
    browser.run(f"{first}.parentNode.parentNode.cells[1].querySelector('button').click()")
    after = browser.run(names)

    assert before.splitlines()[0].startswith("ease")
    assert after.splitlines()[0].startswith("ease")
    assert sorted(before.split()) == sorted(after.split())


def test_hostile_names_do_nothing_in_a_browser(browser, tmp_path):
    browser.show(page_at(tmp_path, hostile_report()))

    assert browser.requests == []
    assert browser.complaints == []
    assert browser.run("document.images.length") == 0


def test_the_page_shows_the_largest_of_many_segments_and_says_where_the_others_are():
    report = page_report(4, 600, 2)

    text = render_html(report)

    segments = {each.segment: each.n_users for each in report.estimates if each.segment}
    shown = [each for each in segments if f">{each}</th>" in text]
    users = {
        name: max(each.n_users for each in report.estimates if each.segment == name)
        for name in segments
    }
    assert len(shown) == 250
    assert min(users[each] for each in shown) >= max(
        users[each] for each in segments if each not in set(shown)
    )
    assert (
        "250 of 600 segments, those with the most users; the others are in metrics.parquet" in text
    )


def test_one_metric_that_is_left_out_is_one():
    assert "1 more metric by segment: see " in render_html(page_report(2, 3, 2))


def test_many_segments_take_time_in_proportion():
    import time

    def seconds(n_segments: int) -> float:
        report = page_report(6, n_segments, 6)
        began = time.process_time()
        for form in ("json", "markdown", "html", "latex", "csv", "table"):
            render(report, form)
        return time.process_time() - began

    seconds(50)
    assert seconds(400) < 12 * seconds(100)


def test_labels_and_ratings_have_words_of_their_own():
    report = page_report(2, 0, 2)
    for role, absent in (("labels", True), ("ratings", True), ("rankings", False)):
        inputs = tuple(replace(each, role=role) for each in report.inputs)
        texts = [
            render(replace(report, inputs=inputs), form) for form in ("html", "table", "markdown")
        ]
        for text in texts:
            for words in ("relevant pairs", "longest list", "without ranking", "depth 50"):
                assert not (absent and words in text)
        assert ("without ranking" in texts[1]) is not absent
