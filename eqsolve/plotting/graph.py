"""The dependency graph of a system as a picture: one time slice from left to right.

The unknowns stand in one row, in the order in which a slice computes them. What is read in the same slice
runs above the row, what comes from the past or enters a derivative below it: no arrow crosses a name.
"""

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch
from matplotlib.path import Path

from eqsolve.errors import UsageError
from eqsolve.language.model import Model
from eqsolve.language.symbols import Head
from eqsolve.language.system import System
from eqsolve.passes.forms.causality import Causality, analyse_causality
from eqsolve.plotting.style import written

# The palette of Okabe and Ito, told apart by colour-blind readers too.
COLOURS = {
    "process": "#56B4E9",
    "driving process": "#E69F00",
    "correlation": "#009E73",
    "response": "#CC79A7",
    "one-time function": "#F0E442",
}
STYLES = {
    "slice": ("-", "#222222", "read in the same time slice"),
    "derivative": ((0, (5, 2.5)), "#666666", "enters the derivative"),
    "history": ((0, (1, 1.6)), "#666666", "read through the past"),
}
_WIDTH, _HEIGHT, _SPACING = 0.62, 0.38, 1.08  # inches: of a box, and from one to the next


def draw_dependencies(model: Model) -> Figure:
    """Return a figure of the dependencies; only a ``System`` has a time slice to draw."""
    if not isinstance(model, System):
        raise UsageError(f"model `{model.name}` is a {model.kind}; only a System has a dependency graph in time")
    causality = analyse_causality(model)
    arrows = [(kind, _course(source, reader, kind)) for source, reader, kind in _arrows(causality)]
    heads = {head.name: head for head in model.unknowns}
    row = [heads[name] for name in causality.order]
    kinds = list(dict.fromkeys(_kind(model, head) for head in row))
    styles = [kind for kind in STYLES if any(name == kind for name, _ in arrows)]
    left, right = -_WIDTH / 2 - 0.25, (len(row) - 1) * _SPACING + _WIDTH / 2 + 0.25
    tops = [0.75 * points[1][1] for _, points in arrows]  # of a curve, not of its control points
    low, high = min([-_HEIGHT / 2, *tops]) - 0.22, max([_HEIGHT / 2, *tops]) + 0.22
    title = f"{model.name}: one time slice, computed from left to right"
    width = max(right - left, 2.2 * len(styles), 1.4 * len(kinds), 0.088 * len(title))
    height = high - low + 1.2
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0.76 / height, 1, 1 - 1.16 / height))
    axes.set_axis_off()
    spare = (width - (right - left)) / 2
    axes.set_xlim(left - spare, right + spare)
    axes.set_ylim(low, high)
    _draw_blocks(axes, causality)
    for place, head in enumerate(row):
        _draw_node(axes, place * _SPACING, head, _kind(model, head))
    for kind, points in arrows:
        path = Path(points, [Path.MOVETO, *([Path.LINETO] if len(points) == 2 else [Path.CURVE4] * 3)])
        line, colour, _ = STYLES[kind]
        tip = "-|>,head_length=5,head_width=2.4"
        axes.add_patch(FancyArrowPatch(path=path, arrowstyle=tip, color=colour, lw=1.25, ls=line, zorder=1))
    figure.suptitle(title, fontsize=11, y=1 - 0.16 / height)
    _draw_legend(figure, kinds, styles)
    return figure


def _kind(system: System, head: Head) -> str:
    return "driving process" if head in system.noises else head.kind_name


def _arrows(causality: Causality) -> list[tuple[int, int, str]]:
    """Return (source, reader, kind) once each; what is read in the same slice needs no arrow from the past."""
    place = {name: index for index, name in enumerate(causality.order)}
    kinds_of: dict[tuple[int, int], set[str]] = {}
    for edge in causality.dependencies:
        kind = "history" if edge.kind == "slice" and edge.source == edge.reader else edge.kind
        kinds_of.setdefault((place[edge.source], place[edge.reader]), set()).add(kind)
    arrows = []
    for (source, reader), kinds in kinds_of.items():
        drawn = kinds - {"history"} if "slice" in kinds else kinds
        arrows += [(source, reader, kind) for kind in STYLES if kind in drawn]
    return arrows


def _course(source: int, reader: int, kind: str) -> list[tuple[float, float]]:
    """Return the points of an arrow: a line between neighbours, else a Bézier curve above or below the row.

    The farther it reaches, the nearer to the middle of a box it ends: arcs nest instead of crossing.
    """
    reach, side = reader - source, 1 if kind == "slice" else -1
    if kind == "slice" and reach == 1:
        return [(source * _SPACING + _WIDTH / 2, 0.0), (reader * _SPACING - _WIDTH / 2, 0.0)]
    edge = side * _HEIGHT / 2
    if reach == 0:
        middle, top = source * _SPACING, edge + 0.53 * side
        return [(middle - 0.08, edge), (middle - 0.25, top), (middle + 0.25, top), (middle + 0.08, edge)]
    offset = (0.12 + 0.09 / abs(reach)) * (1 if reach > 0 else -1)
    # what leaves a box and what arrives at it are a little apart
    start, end = source * _SPACING + 1.2 * offset, reader * _SPACING - offset
    top = edge + side * 0.43 * abs(end - start) ** 0.9
    return [(start, edge), (start, top), (end, top), (end, edge)]


def _draw_node(axes: Axes, middle: float, head: Head, kind: str) -> None:
    colour = to_rgb(COLOURS.get(kind, "#BBBBBB"))
    pale = tuple(1 - 0.45 * (1 - part) for part in colour)
    axes.add_patch(
        FancyBboxPatch(
            (middle - _WIDTH / 2, -_HEIGHT / 2), _WIDTH, _HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.1", facecolor=pale, edgecolor=colour, lw=1.6, zorder=3,
        )
    )  # fmt: skip
    axes.text(middle, -0.01, written(head.name, {head.name: head.latex_name}), ha="center", va="center", fontsize=13, zorder=4)


def _draw_blocks(axes: Axes, causality: Causality) -> None:
    """Frame the unknowns of a slice that have to be solved together."""
    first = 0
    for block in causality.blocks:
        if len(block) > 1:
            corner = (first * _SPACING - _WIDTH / 2 - 0.1, -_HEIGHT / 2 - 0.1)
            size = ((len(block) - 1) * _SPACING + _WIDTH + 0.2, _HEIGHT + 0.2)
            style = "round,pad=0,rounding_size=0.12"
            axes.add_patch(FancyBboxPatch(corner, *size, boxstyle=style, fc="#F2F2F2", ec="#BBBBBB", zorder=0))
        first += len(block)


def _draw_legend(figure: Figure, kinds: list[str], styles: list[str]) -> None:
    boxes = [Patch(facecolor=COLOURS.get(kind, "#BBBBBB"), label=kind) for kind in kinds]
    lines = [Line2D([], [], ls=line, color=colour, label=words) for line, colour, words in (STYLES[kind] for kind in styles)]
    size = figure.get_size_inches()[1]
    for handles, height, length in ((boxes, 0.42, 1.2), (lines, 0.1, 2.2)):
        figure.legend(
            handles=handles, loc="lower center", bbox_to_anchor=(0.5, height / size),
            ncols=max(len(handles), 1), frameon=False, fontsize=9, handlelength=length, borderpad=0,
            columnspacing=1.6,
        )  # fmt: skip
