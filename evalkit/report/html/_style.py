"""The page's style and its one script, with the hashes that let a browser run them."""

import hashlib
import re
from base64 import b64encode

COLORS = 10

_COLORS = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#5b6470;--line:#dfe3e8;--wash:#f5f6f8;
--paper:#fff;--pass:#1a7f4b;--fail:#b3261e;--unclear:#8a6100;--c0:#0067a5;--c1:#c2500a;
--c2:#1b8a5a;--c3:#8e44a3;--c4:#b08300;--c5:#b3446c;--c6:#3d8eb9;--c7:#6b7280;--c8:#7a4a1e;
--c9:#4b6f00}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa4b0;--line:#343b44;
--wash:#1d2228;--paper:#14181d;--pass:#5fc992;--fail:#ff8a80;--unclear:#e0b84c;--c0:#5fb0e8;
--c1:#f0924f;--c2:#5ec99a;--c3:#c792dd;--c4:#e0bd4f;--c5:#ec86ab;--c6:#8fd0ee;--c7:#a8b0bb;
--c8:#c99a6c;--c9:#a9cb5b}}
"""
_RULES = """\
*{box-sizing:border-box}
body{margin:0 auto;max-width:70rem;padding:1.5rem 1rem 3rem;background:var(--paper);
color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,
"DejaVu Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:0;font-weight:650}
h2{font-size:1.12rem;margin:2.6rem 0 .2rem;font-weight:650}
h3{font-size:.95rem;margin:1.5rem 0 .2rem;font-weight:600}
p{margin:.2rem 0 .7rem;max-width:46rem}
.soft,small,caption,summary{color:var(--soft)}
small{font-size:.8rem}
a{color:inherit}
nav{margin:.9rem 0 0;font-size:.85rem}
nav a{margin-right:1rem;color:var(--soft);white-space:nowrap}
.verdict{border-left:.35rem solid var(--soft);padding:.3rem 0 .3rem .9rem;margin:1.3rem 0 0;
font-size:1.12rem;font-weight:600}
.verdict small{display:block;font-weight:400;font-size:.88rem}
.verdict.pass{border-color:var(--pass)}.verdict.fail{border-color:var(--fail)}
.verdict.unclear{border-color:var(--unclear)}
b.pass,b.better{color:var(--pass)}b.fail,b.worse{color:var(--fail)}b.unclear{color:var(--unclear)}
.scroll{overflow-x:auto;margin:.5rem 0;max-width:100%;background:
linear-gradient(90deg,var(--paper) 40%,transparent) left/2rem 100% local no-repeat,
linear-gradient(270deg,var(--paper) 40%,transparent) right/2rem 100% local no-repeat,
linear-gradient(90deg,var(--line),transparent) left/.7rem 100% no-repeat,
linear-gradient(270deg,var(--line),transparent) right/.7rem 100% no-repeat}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.8rem;
list-style:none;margin:1rem 0 .4rem;padding:0}
.tiles li{background:var(--wash);border-radius:.35rem;padding:.6rem .8rem;line-height:1.3}
.tiles span,.tiles small{display:block;font-size:.8rem}.tiles strong{font-size:1.55rem}
.skip{position:absolute;left:-99rem}.skip:focus{position:static}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;
overflow-wrap:normal}
caption{text-align:left;padding:.2rem 0;font-size:.82rem}
th,td{padding:.3rem .7rem .3rem 0;text-align:right;vertical-align:baseline;
border-bottom:1px solid var(--line);white-space:nowrap}
thead th{font-weight:600;color:var(--soft);vertical-align:bottom;border-bottom-color:var(--soft)}
thead th.group{text-align:left;border-bottom:0;padding-bottom:0}
th:first-child,td:first-child{text-align:left;padding-left:0}
tbody th{font-weight:500}
td.text,th.text{text-align:left}
td.wrap{white-space:normal;min-width:14rem;text-align:left}
td i,th i{display:block;font-style:normal;font-size:.74rem;color:var(--soft);line-height:1.2}
td i{white-space:normal}.pin thead th{white-space:normal}
td.best{font-weight:700}td.best i{font-weight:400}
thead tr:not(:last-child) th{border-bottom:0}
.data thead th{white-space:normal;max-width:6.5rem}
.pin th:first-child{position:sticky;left:0;background:var(--paper);max-width:11rem;
overflow:hidden;text-overflow:ellipsis}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(20.5rem,100%),1fr));
gap:.8rem 1.5rem;align-items:start}
.wide{grid-template-columns:repeat(auto-fill,minmax(min(30rem,100%),1fr))}
.wide td.wrap{min-width:8rem}.across{grid-column:1/-1}
figure{margin:.4rem 0}
figcaption{font-size:.85rem;font-weight:600;margin-bottom:.15rem}
"""
_PLOTS = """\
svg{display:block;max-width:100%;height:auto;overflow:visible}
svg text{font-size:11px;fill:var(--soft);font-variant-numeric:tabular-nums}
svg text.name{fill:var(--ink)}
svg .grid{stroke:var(--line);stroke-width:1;fill:none}
svg .zero{stroke:var(--soft);stroke-width:1;fill:none}
svg .dot{stroke-width:7;stroke-linecap:round;fill:none}
svg .square{stroke-linecap:square;stroke-width:6}
svg .small{stroke-width:5.5}svg .square.small{stroke-width:4.6}
svg .bar{stroke-width:1.6;fill:none}
svg .bar.thin{stroke-width:.8}
svg .curve{stroke-width:1.8;fill:none;stroke-linejoin:round}
svg .expected{stroke-width:1;fill:none;stroke-dasharray:4 3;opacity:.7}
svg .flag{stroke:var(--fail);stroke-width:1.4;fill:none}
svg .band{stroke:none;opacity:.16}
svg .area{stroke-width:1;fill-opacity:.35}
svg .m{text-anchor:middle}svg .e{text-anchor:end}
svg .cell{fill:var(--ink);text-anchor:middle}
svg .strong{font-weight:700}
"""
_OTHERS = """\
.key{display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin:.3rem 0;padding:0;list-style:none;
font-size:.82rem}
.key svg{display:inline-block;vertical-align:-1px;margin-right:.35rem}
details{margin:.3rem 0}summary{cursor:pointer;font-size:.82rem}
pre{background:var(--wash);padding:.8rem;font-size:.78rem;overflow-x:auto;max-width:100%;
white-space:pre-wrap}pre.told{white-space:pre}
code{font-size:.86em}
ul.warnings{padding:0;margin:.4rem 0;list-style:none}
ul.warnings li{padding:.35rem 0 .35rem .8rem;border-left:.2rem solid var(--unclear);
margin-bottom:.35rem}
input.filter{font:inherit;font-size:.85rem;padding:.2rem .5rem;margin:.3rem 0;
border:1px solid var(--line);background:var(--paper);color:inherit;border-radius:.25rem}
button.sort{all:unset;cursor:pointer;display:block;width:100%;
min-height:1.2em;
text-decoration:underline dotted;text-underline-offset:.2em}
button.sort:focus-visible{outline:2px solid var(--c0)}
th[aria-sort=ascending] button::after{content:" ↑"}
th[aria-sort=descending] button::after{content:" ↓"}
@media(max-width:38rem){td.wrap{min-width:6rem}
.wide-plot{overflow-x:auto}.wide-plot svg{max-width:none;width:46rem}
.stack thead{display:none}.stack,.stack tbody,.stack tr,.stack :is(th,td){
display:block}.stack tr{border-bottom:1px solid var(--line);padding:.4rem 0}.stack :is(th,td){
border:0;padding:0;white-space:normal;text-align:left;min-width:0}}
@media print{:root{color-scheme:light;--ink:#000;--soft:#444;--line:#ccc;--wash:#f4f4f4;
--paper:#fff;--pass:#1a7f4b;--fail:#b3261e;--unclear:#8a6100;--c0:#0067a5;--c1:#c2500a;
--c2:#1b8a5a;--c3:#8e44a3;--c4:#b08300;--c5:#b3446c;--c6:#3d8eb9;--c7:#6b7280;--c8:#7a4a1e;
--c9:#4b6f00}body{max-width:none;padding:0;font-size:10pt}nav,input.filter{display:none}
.scroll{overflow:visible;background:none}.tiles li{border:1px solid var(--line)}
figure,tr,.verdict{break-inside:avoid}h2,h3{break-after:avoid}
.pin th:first-child{position:static}table{font-size:7.5pt}th,td{padding-right:.4rem}
.plots{grid-template-columns:repeat(2,1fr)}}
"""

_COLOR_RULES = "".join(
    f".c{n}{{stroke:var(--c{n})}}.f{n},svg text.f{n}{{fill:var(--c{n})}}\n" for n in range(COLORS)
)
STYLE = _COLORS + _RULES + _PLOTS + _OTHERS + _COLOR_RULES
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

SCRIPT = """
(function(){"use strict";
function value(row,place){var cell=row.cells[place];if(!cell)return"";
var first=cell.firstChild,shown=(first&&first.nodeType===3?first.data:cell.textContent).trim();
var number=parseFloat(shown.replace(/\\u2212/g,"-").replace(/,/g,""));
return isNaN(number)?shown.toLowerCase():number;}
document.querySelectorAll("table.sortable").forEach(function(table){
var body=table.tBodies[0],heads=table.tHead.rows[table.tHead.rows.length-1].cells;
Array.prototype.forEach.call(heads,function(head,place){
var button=document.createElement("button");button.className="sort";button.type="button";
button.title="sort by this column";
while(head.firstChild)button.appendChild(head.firstChild);head.appendChild(button);
button.addEventListener("click",function(){
var down=head.getAttribute("aria-sort")==="descending"?1:-1;
Array.prototype.forEach.call(heads,function(each){each.removeAttribute("aria-sort");});
head.setAttribute("aria-sort",down<0?"descending":"ascending");
Array.prototype.slice.call(body.rows).sort(function(left,right){
var a=value(left,place),b=value(right,place);
if(typeof a!==typeof b)return typeof a==="number"?-1:1;
return a<b?-down:a>b?down:0;}).forEach(function(row){body.appendChild(row);});});});
if(body.rows.length>12){var box=document.createElement("input");box.type="search";
box.className="filter";box.placeholder="filter rows";box.setAttribute("aria-label","filter rows");
box.addEventListener("input",function(){var wanted=box.value.toLowerCase();
Array.prototype.forEach.call(body.rows,function(row){
row.hidden=row.textContent.toLowerCase().indexOf(wanted)<0;});});
table.parentNode.parentNode.insertBefore(box,table.parentNode);}});})();
"""


def hash_of(code: str) -> str:
    """`code` as a content policy names it."""
    return f"'sha256-{b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {hash_of(STYLE)}; script-src {hash_of(SCRIPT)}; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
