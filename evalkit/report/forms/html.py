"""report.html: the page, which needs nothing else."""

from evalkit.config.form_names import Form
from evalkit.report.html import render_html

FORM = Form("report.html", render_html)
