"""The page's style and its one script, and the hashes that let a browser run them."""

import hashlib
import re
from base64 import b64encode
from pathlib import Path

COLORS = 10


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


_COLORS, _PLOTS = "\n" + _read("colors.css"), _read("plots.css")
_COLOR_RULES = "".join(
    f".c{n}{{stroke:var(--c{n})}}.f{n},svg text.f{n}{{fill:var(--c{n})}}\n" for n in range(COLORS)
)
STYLE = _COLORS + _read("page.css") + _PLOTS + _read("parts.css") + _COLOR_RULES
_ALONE = "svg.evalkit"
PLOT_STYLE = (  # of a plot in somebody else's page: no rule speaks of anything but the plot
    _COLORS.replace(":root", _ALONE)
    + f"{_ALONE}{{background:var(--paper)}}\n"
    + re.sub(r"(?m)(^|[},])(?:svg\b ?)?(?=[.\w{])", rf"\1{_ALONE} ", _PLOTS + _COLOR_RULES)
)
_LIGHT = dict(re.findall(r"(--\w+):(#\w+)", _COLORS.partition("@media")[0]))
FIXED_STYLE = (  # for files: programs that make PDF of SVG know no variables
    f'{_ALONE} text{{font-family:"DejaVu Sans",Arial,sans-serif}}\n'
    + re.sub(
        r"var\((--\w+)\)",
        lambda found: _LIGHT[found[1]],
        PLOT_STYLE.partition("{background:var(--paper)}\n")[2],
    )
)

SCRIPT = "\n" + _read("page.js")


def hash_of(code: str) -> str:
    """`code` as a content policy names it."""
    return f"'sha256-{b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {hash_of(STYLE)}; script-src {hash_of(SCRIPT)}; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
