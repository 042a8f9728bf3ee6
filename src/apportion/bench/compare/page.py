"""The comparison as one HTML page that needs no network: a plot and a table per task, and who could not run, and why.

The plots are dots with their intervals, drawn here as a few SVG elements each: some 40 rows on 14 tasks as pictures of
a plotting library would be megabytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from apportion.bench.compare.cells import CONTROLS, COSTS, METRICS

SAYS = {
    "cosine": "cosine of one batch's policy gradient with the exact one: noise and bias",
    "cosine_mean": "cosine of the gradient averaged over seeds: what is left is bias",
    "snr": "squared mean of the gradient over its variance",
    "rank": "Spearman correlation of credit and exact advantage",
    "sign": "share of equal signs where the advantage is not 0",
    "top1": "how often the largest credit of five steps falls on the best of them; chance is 0.2",
    "corr": "Pearson correlation; easily gamed, see 'immediate reward'",
    "error": "root mean square error at the best factor, over that of saying 0",
    "bias": "systematic part of it, as an estimate of the advantage; a baseline that ignores the state counts here and "
    "does not bend the gradient. Below 0: less than these seeds can tell",
    "variance": "the rest of its square",
    "error_raw": "the error without the factor",
    "fit": "that factor",
}
STYLE = """
:root{--ink:#26282d;--soft:#6b6f78;--line:#dddcd6;--dot:#0072b2;--control:#a67c00;--paper:#fdfdfb}
@media(prefers-color-scheme:dark){
:root{--ink:#e6e6e3;--soft:#a0a4ad;--line:#33363d;--dot:#56b4e9;--control:#f0d24a;--paper:#17181b}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:1180px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.5rem}p,li{max-width:75ch}
table{border-collapse:collapse;font-size:12.5px;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}
td,th{padding:.15rem .5rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
td:first-child,th:first-child{text-align:left;position:sticky;left:0;background:var(--paper)}
small,.soft{color:var(--soft)}svg text{fill:var(--ink);font:12px system-ui,sans-serif}summary{cursor:pointer}
svg{max-width:100%;height:auto}.axis{stroke:var(--line)}.bar{stroke:var(--dot);stroke-width:2}.dot{fill:var(--dot)}
.control .bar{stroke:var(--control)}.control .dot{fill:var(--control)}
"""
LEFT, WIDTH, ROW = 190, 620, 18

OVER = 1.25
"""Share of the budget from which a method counts as dearer: two rollouts tell the price of the others so well."""


def page(document: Mapping[str, Any]) -> str:
    """The whole page for the document of `compare`."""
    plan, cells = document["plan"], document["cells"]
    tasks = list(dict.fromkeys(cell["task"] for cell in cells))
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>",
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>apportion bench</title><style>{STYLE}</style><h1>Credit methods against the exact answer</h1>",
        f"<p>Each method may spend {plan['budget']:,} decisions per seed: actions that the policy chose, fresh "
        f"continuations included, and requests to a reward model. {plan['seeds']} seeds, groups of {plan['n']}, the "
        f"{escape(plan['policy'])} policy of each task, state keys {escape(plan['state'] or 'exact')}. Brackets are "
        "95% intervals over seeds. Methods that read values or ask are given the exact values, policy and reward "
        f"model: this is them at their best. <span class='soft'>apportion {escape(document['version'])}</span></p>",
        "<h2>Cosine with the exact policy gradient</h2>",
        _overview(tasks, cells),
        *(_task(name, [cell for cell in cells if cell["task"] == name]) for name in tasks),
        *(f"<p>{escape(sentence)}</p>" for sentence in dearer(cells)),
        _reasons(cells),
        "<h2>What the columns say</h2><ul>",
        *(f"<li><b>{escape(name)}</b> {escape(what)}</li>" for name, what in SAYS.items()),
        "</ul></html>",
    ]
    return "\n".join(parts)


def ranked(cells: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The cells that ran, best cosine first."""
    return sorted(
        (cell for cell in cells if "metrics" in cell), key=lambda cell: -(cell["metrics"]["cosine"][0] or -1.0)
    )


def reasons(cells: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """(method, reason) and the tasks where it holds."""
    out: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if "reason" in cell:
            out.setdefault((cell["method"], cell["reason"]), []).append(cell["task"])
    return out


def dearer(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence for each method that spent more than its budget, because one rollout with its asks costs more."""
    over: dict[str, list[str]] = {}
    for cell in cells:
        if "cost" in cell and (spent := cell["cost"]["decisions"][0]) > OVER * cell["budget"]:
            over.setdefault(cell["method"], []).append(f"{spent:,.0f} on {cell['task']}")
    return [
        f"{method} cost more than the budget of {cells[0]['budget']:,} decisions, because one rollout with its asks "
        f"does: {', '.join(where)}. Its rows there are no comparison at equal cost; raise the budget."
        for method, where in over.items()
    ]


def number(x: float | None, digits: int = 2) -> str:
    """A number for a table; a dash where there is none, few digits where it is large."""
    if x is None:
        return "–"
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 10 and digits else f"{x:.{digits}f}"


def _overview(tasks: Sequence[str], cells: Sequence[Mapping[str, Any]]) -> str:
    found = {(cell["method"], cell["task"]): cell["metrics"]["cosine"] for cell in cells if "metrics" in cell}
    methods = dict.fromkeys(method for method, _ in found)

    def standing(method: str) -> tuple[int, float]:
        """Those that ran on more tasks first, so that averages are over the same ones; then the best average."""
        told = [found[method, t][0] for t in tasks if (method, t) in found and found[method, t][0] is not None]
        return -len(told), -sum(told) / max(len(told), 1)

    rows = [f"<tr><th>method</th>{''.join(f'<th>{escape(t)}</th>' for t in tasks)}</tr>"]
    for method in sorted(methods, key=standing):
        row = "".join(_shade(found.get((method, t), [None])[0]) for t in tasks)
        rows.append(f"<tr><td>{escape(method)}</td>{row}</tr>")
    return f"<div class='wide'><table>{''.join(rows)}</table></div>"


def _shade(value: float | None) -> str:
    share = 0.0 if value is None else max(0.0, min(1.0, value))
    return f"<td style='background:rgba(0,140,150,{0.45 * share:.2f})'>{number(value)}</td>"


def _task(name: str, cells: Sequence[Mapping[str, Any]]) -> str:
    ran = ranked(cells)
    head = "".join(f"<th title='{escape(SAYS[key], quote=True)}'>{escape(key)}</th>" for key in METRICS)
    head += "".join(f"<th>{escape(key)}</th>" for key in COSTS)
    rows = []
    for cell in ran:
        told = "".join(_interval(cell["metrics"][key]) for key in METRICS)
        paid = "".join(f"<td>{number(cell['cost'][key][0], 0)}</td>" for key in COSTS)
        rows.append(f"<tr><td>{escape(cell['method'])}</td>{told}{paid}</tr>")
    return (
        f"<h2>{escape(name)}</h2><p class='soft'>expected return of the policy {cells[0]['J']:.3f}</p>{_plot(ran)}"
        f"<details><summary>all numbers</summary><div class='wide'><table><tr><th>method</th>{head}</tr>"
        f"{''.join(rows)}</table></div></details>"
    )


def _interval(value: Sequence[float | None]) -> str:
    middle, low, high = value
    told = "" if low is None else f" <small>[{number(low)}, {number(high)}]</small>"
    return f"<td>{number(middle)}{told}</td>"


def _plot(cells: Sequence[Mapping[str, Any]]) -> str:
    drawn = [cell for cell in cells if cell["metrics"]["cosine"][0] is not None]
    height = ROW * (len(drawn) + 2)

    def x(value: float) -> float:
        return LEFT + (value + 0.25) / 1.25 * (WIDTH - LEFT - 10)

    out = [
        f"<svg viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' role='img' aria-label='cosine with the exact gradient'>"
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = x(tick)
        out.append(f"<line class='axis' x1='{at:.0f}' x2='{at:.0f}' y1='4' y2='{height - ROW}'/>")
        out.append(f"<text x='{at:.0f}' y='{height - 4}' text-anchor='middle'>{tick:g}</text>")
    for row, cell in enumerate(drawn):
        value, low, high = cell["metrics"]["cosine"]
        low, high = (value, value) if low is None else (low, high)
        y = ROW * (row + 0.8)
        kind = "control" if cell["method"] in CONTROLS else "method"
        ends = [max(x(-0.25), x(end)) for end in (low, high)]
        out.append(
            f"<g class='{kind}'><title>{escape(cell['method'])}: {value:.3f} [{low:.3f}, {high:.3f}]</title>"
            f"<text x='{LEFT - 8}' y='{y + 4:.1f}' text-anchor='end'>{escape(cell['method'])}</text>"
            f"<line class='bar' x1='{ends[0]:.1f}' x2='{ends[1]:.1f}' y1='{y:.1f}' y2='{y:.1f}'/>"
            f"<circle class='dot' cx='{max(x(-0.25), x(value)):.1f}' cy='{y:.1f}' r='4'/></g>"
        )
    return "".join(out) + "</svg>"


def _reasons(cells: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        f"<li><b>{escape(method)}</b> on {escape(', '.join(tasks))}: {escape(reason)}</li>"
        for (method, reason), tasks in reasons(cells).items()
    ]
    return f"<h2>Not run, and why</h2><ul>{''.join(rows)}</ul>" if rows else ""
