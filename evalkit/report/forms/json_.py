"""report.json: as what every run is kept, and read back."""

from evalkit.config.form_names import Form
from evalkit.report.json_ import render_json

FORM = Form("report.json", render_json, is_filed=True)
