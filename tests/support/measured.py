"""Measured excess risk of each method against epsilon from docs/benchmarks, and its picture.

Small SVG files, the same bytes for the same figures; greys that are read on light and on dark.
"""

import json
import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[2] / "docs/benchmarks"
EPSILONS = (0.1, 0.2, 0.5, 1.0, 4.0)
Curves = dict[str, dict[str, list[float]]]  # dataset, way: mean excess by epsilon
WIDTH, HEIGHT, MARGIN_LEFT, TOP = 250, 210, 46, 26
_DASHES = ("none", "6 3", "2 2", "8 2 2 2")


def curves() -> Curves:
    """Return the curves that `ours.jsonl` has at all epsilons."""
    excess_by_epsilon: dict[str, dict[str, dict[float, float]]] = {}
    for line in map(json.loads, (FOLDER / "ours.jsonl").read_text().splitlines()):
        if way := line.get("way"):
            named = excess_by_epsilon.setdefault(line["dataset"], {}).setdefault(way, {})
            named[line["epsilon"]] = float(np.mean(line["excess"]))
    return {
        dataset: {way: [cells[e] for e in EPSILONS] for way, cells in ways.items() if set(EPSILONS) <= set(cells)}
        for dataset, ways in excess_by_epsilon.items()
    }


def of(method: str, all_curves: Curves) -> Curves:
    """Return the variants of one method by dataset."""
    own = {
        dataset: {w: c for w, c in ways.items() if w.split(",")[0] == method} for dataset, ways in all_curves.items()
    }
    return {dataset: ways for dataset, ways in own.items() if ways}


def picture(method: str, all_curves: Curves) -> str:
    """Return a panel for each of up to four datasets: the method in colour, all others grey, both axes logarithmic."""
    own = dict(list(of(method, all_curves).items())[:4])
    ways = list(dict.fromkeys(way for each in own.values() for way in each))
    parts = [
        part for i, dataset in enumerate(own) for part in _panel(i, dataset, own[dataset], all_curves[dataset], ways)
    ]
    legend = [text(MARGIN_LEFT, HEIGHT + 16, "excess training risk against epsilon; grey: all other methods")]
    for i, way in enumerate(ways):
        x, y = MARGIN_LEFT + i % 4 * 210, HEIGHT + 34
        legend += [line([(x, y - 4), (x + 24, y - 4)], "#0072B2", 2, _DASHES[i % 4]), text(x + 30, y, way)]
    return drawing(max(2, len(own)) * WIDTH, HEIGHT + 44, [*parts, *legend])


def law() -> str:
    """Probability that `inverse_sensitivity` chooses each of 200 cells, for the median of 99 numbers."""
    numbers = 2 * (np.arange(1, 100) / 100) ** 2 - 1
    edges = np.linspace(-1, 1, 201)
    below = np.searchsorted(numbers, edges) - len(numbers) / 2
    scores = np.where(below[:-1] * below[1:] <= 0, 0.0, np.minimum(abs(below[:-1]), abs(below[1:])))
    parts = [line([(_at(x), 172), (_at(x), 180)], "#888888", 1) for x in numbers]
    for i, (epsilon, color) in enumerate(((0.1, "#E69F00"), (0.3, "#009E73"), (1.0, "#0072B2"))):
        chance = np.exp(-epsilon * scores / 2)
        chance /= chance.sum()
        points = [(_at(x), 170 - 600 * p) for x, p in zip((edges[:-1] + edges[1:]) / 2, chance, strict=True)]
        parts += [line(points, color, 2), text(420, 30 + 16 * i, f"epsilon {epsilon:g}", color)]
    return drawing(520, 200, [*parts, text(20, 196, "probability of each cell; below: the numbers")])


def drawing(width: int, height: int, parts: Sequence[str]) -> str:
    """The file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join([head + ' font-family="sans-serif" font-size="11">', *parts, "</svg>", ""])


def _panel(
    i: int, dataset: str, own: dict[str, list[float]], all_: dict[str, list[float]], ways: list[str]
) -> Iterator[str]:
    values = [math.log10(value) for curve in all_.values() for value in curve]
    low, high = math.floor(min(values)), math.ceil(max(values))
    left_edge, right_edge, bottom = i * WIDTH + MARGIN_LEFT, (i + 1) * WIDTH - 12, HEIGHT - 22

    def at(epsilon: float, value: float) -> tuple[float, float]:
        across = math.log(epsilon / EPSILONS[0]) / math.log(EPSILONS[-1] / EPSILONS[0])
        up = (math.log10(value) - low) / (high - low)
        return left_edge + across * (right_edge - left_edge), bottom - up * (bottom - TOP)

    yield text(left_edge, 16, dataset)
    for power in range(low, high + 1):
        y = at(1, 10.0**power)[1]
        yield line([(left_edge, y), (right_edge, y)], "#888888", 0.4)
        yield text(left_edge - 36, y + 4, f"{10.0**power:g}")
    for epsilon in EPSILONS:
        yield text(at(epsilon, 1)[0] - 6, HEIGHT - 6, f"{epsilon:g}")
    for way, curve in sorted(all_.items(), key=lambda each: each[0] in own):
        points = [at(epsilon, value) for epsilon, value in zip(EPSILONS, curve, strict=True)]
        yield line(points, "#0072B2", 2, _DASHES[ways.index(way) % 4]) if way in own else line(points, "#999999", 0.8)


def _at(x: float) -> float:
    return 20 + 240 * (x + 1)


def line(points: Sequence[tuple[float, float]], color: str, width: float, dashes: str = "none") -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = "" if dashes == "none" else f' stroke-dasharray="{dashes}"'
    return f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="{width:g}"{dashed}/>'


def text(x: float, y: float, text: str, color: str = "#777777") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}">{escape(text)}</text>'
