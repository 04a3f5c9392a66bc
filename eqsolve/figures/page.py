"""The page of all figures: self-contained, with captions and the table of agreement."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from eqsolve.figures.make import Made, list_analyses, made_before
from eqsolve.files.atomic import atomic_path

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
figure { margin: 2.5rem 0; } figure img { max-width: 100%; height: auto; display: block; margin: 0 auto; }
figcaption { color: #333; font-size: 0.9rem; margin-top: 0.6rem; }
table { border-collapse: collapse; font-size: 0.85rem; width: 100%; }
td, th { padding: 0.25rem 0.6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.from { color: #666; font-weight: 400; font-size: 0.8em; }
.miss { color: #b00020; font-weight: 600; } .why { color: #8a5a00; } nav { columns: 2; font-size: 0.9rem; }
"""


def write_page(made: Sequence[Made], out: Path) -> Path:
    """Write ``index.html``, pictures inside: what was made, and every other figure of the folder."""
    now = {item.name: item for item in made}
    before = [item for item in made_before(out) if item.name not in now]
    order = {item.name: place for place, item in enumerate(list_analyses())}
    made = sorted([*made, *before], key=lambda item: order.get(item.name, len(order)))
    figures = "\n".join(_figure(item, out) for item in made)
    contents = "".join(f'<li><a href="#{item.name}">{escape(item.title)}</a>{_origin(item)}</li>' for item in made)
    quick = [item.quick for item in made if item.status == "made"]
    mode = "Some figures have quick settings, as their captions say." if any(quick) else "Full settings."
    mode = "Quick settings: few draws, small sizes, loose tolerances." if quick and all(quick) else mode
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Figures</title><style>{_STYLE}</style></head><body>
<h1>Figures</h1>
<p>{mode} Lines are theory, with a band of its numerical error; points are simulations at finite size. The numbers behind each
figure are in the netCDF file of the same name.</p>
<nav><ol>{contents}</ol></nav>
<h2>Agreement of theory and simulation</h2>
{_table(made)}
{figures}
</body></html>
"""
    page = out / "index.html"
    with atomic_path(page) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")
    return page


def _figure(item: Made, out: Path) -> str:
    head = f'<figure id="{item.name}"><h2>{escape(item.title)}{_origin(item)}</h2>'
    if item.status != "made":
        return f'{head}<p class="why">Not made ({item.status}): {escape(item.message)}</p></figure>'
    picture = base64.b64encode((out / f"{item.name}.png").read_bytes()).decode()
    files = " · ".join(f'<a href="{item.name}{suffix}">{suffix[1:]}</a>' for suffix in (".pdf", ".png", ".nc", ".tex"))
    return (
        f'{head}<img src="data:image/png;base64,{picture}" alt="{escape(item.title)}">'
        f"<figcaption>{escape(item.caption)} ({files})</figcaption></figure>"
    )


def _origin(item: Made) -> str:
    """Return which paper this is from, in small letters."""
    return f' <small class="from">{escape(item.paper)}</small>' if item.paper else ""


def _table(made: Sequence[Made]) -> str:
    rows = []
    for item in made:
        for found in item.agreements:
            verdict = "agrees" if found.ok else ("explained" if found.explained else "MISS")
            kind = {"agrees": "", "explained": ' class="why"', "MISS": ' class="miss"'}[verdict]
            rows.append(
                f'<tr><td><a href="#{item.name}">{item.name}</a></td><td>{escape(found.what)}</td>'
                f'<td class="n">{found.points}</td><td class="n">{found.z:.2f}</td><td class="n">{found.plain:.2f}</td>'
                f"<td{kind}>{verdict}{': ' + escape(found.note) if found.note else ''}</td></tr>"
            )
    return (
        "<p>z: difference over its standard error (simulation, theory, and the bias of finite size measured from draws at "
        "half the size), as a standard normal value; plain: without the bias.</p>"
        '<table><tr><th>figure</th><th>what</th><th class="n">points</th><th class="n">max |z|</th>'
        f'<th class="n">plain</th><th></th></tr>{"".join(rows)}</table>'
    )
