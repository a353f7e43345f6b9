#!/usr/bin/env python3
"""Draws time versus size of all_reduce, for Tessera and its peers, from the results of the bench suite comm.

    tools/plot_collectives.py build/bench/comm.json docs/img/all_reduce.svg

Draws one panel per number of ranks. Rows are found by name: shm_all_reduce_w2_64KiB is Tessera; in other rows, the text
before all_reduce (openmpi, openmpi_no_single_copy, ...) names the peer. Both axes are logarithmic.
"""

import argparse
import json
import math
import pathlib
import re
import sys
from xml.sax.saxutils import escape

ROW = re.compile(r"^(?P<whose>\w+?)_all_reduce_w(?P<ranks>\d+)_(?P<size>\d+)(?P<unit>[KMG])iB$")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
# Series -> label, color, dashes. The colors are distinct without red and green.
SERIES = {
    "shm": ("Tessera, shm", "#1b4f9c", ""),
    "openmpi": ("Open MPI", "#d1711e", ""),
    "openmpi_no_single_copy": ("Open MPI, single copy off", "#d1711e", "6 3"),
    "openmpi_no_rep_movsb": ("Open MPI, rep movsb raised", "#d1711e", "2 3"),
    "gloo": ("gloo, TCP", "#7a7a7a", ""),
}
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 440, 380, 62, 48, 28, 50


def read(path):
    """Returns (rows as {ranks: {whose: [(bytes, us), ...]}}, a description of the machine)."""
    root = json.loads(pathlib.Path(path).read_text())
    panels = {}
    for row in root["results"]:
        found = ROW.match(row["name"])
        if not found or found["whose"] not in SERIES:
            continue
        nbytes = int(found["size"]) * UNITS[found["unit"]]
        panels.setdefault(int(found["ranks"]), {}).setdefault(found["whose"], []).append((nbytes, row["value"]))
    machine = root["machine"]
    return panels, f"{machine['cpu']}, {machine['cores']} cores, {machine['date'][:10]}"


def size_text(nbytes):
    for letter, unit in reversed(UNITS.items()):
        if nbytes >= unit:
            return f"{nbytes // unit} {letter}iB"
    return f"{nbytes} B"


def time_text(us):
    return f"{us / 1e6:g} s" if us >= 1e6 else f"{us / 1e3:g} ms" if us >= 1e3 else f"{us:g} us"


class Panel:
    """One chart, at `x` of the drawing."""

    def __init__(self, x, ranks, series, low, high):
        self.x, self.ranks, self.series = x, ranks, series
        self.sizes = sorted({nbytes for points in series.values() for nbytes, _ in points})
        self.low, self.high = low, high  # decades of microseconds

    def at(self, nbytes, us):
        first, last = math.log2(self.sizes[0]), math.log2(self.sizes[-1])
        across = (math.log2(nbytes) - first) / ((last - first) or 1)
        up = (math.log10(us) - self.low) / (self.high - self.low)
        return (self.x + LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1 - up) * (HEIGHT - TOP - BOTTOM))

    def draw(self):
        out = [f'<text x="{self.x + LEFT}" y="{TOP - 14}" class="title">all_reduce of f32, {self.ranks} ranks</text>']
        for decade in range(self.low, self.high + 1):
            x, y = self.at(self.sizes[0], 10**decade)
            right = self.x + WIDTH - RIGHT
            out.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="grid"/>')
            out.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{time_text(10.0**decade)}</text>')
        for nbytes in self.sizes:
            x, y = self.at(nbytes, 10**self.low)
            out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{y:.1f}" class="grid"/>')
            out.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{size_text(nbytes)}</text>')
        # Tessera is drawn last, over the others.
        for whose in reversed([name for name in SERIES if name in self.series]):
            _, colour, dashes = SERIES[whose]
            points = [self.at(*point) for point in sorted(self.series[whose])]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            width = 2.6 if whose == "shm" else 1.6
            dash = f' stroke-dasharray="{dashes}"' if dashes else ""
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>')
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 0.6:.1f}" fill="{colour}"/>' for x, y in points]
        return out


def draw(panels, machine):
    times = [us for series in panels.values() for points in series.values() for _, us in points]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    width = WIDTH * len(panels)
    present = [whose for whose in SERIES if any(whose in series for series in panels.values())]
    height = HEIGHT + 20 * math.ceil(len(present) / 3) + 26
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
           "<style>text { font: 12px sans-serif; fill: #333 } .title { font-size: 14px; font-weight: bold }"
           " .grid { stroke: #ddd; stroke-width: 1 }</style>",
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, ranks in enumerate(sorted(panels)):
        out += Panel(i * WIDTH, ranks, panels[ranks], low, high).draw()
    for i, whose in enumerate(present):
        label, colour, dashes = SERIES[whose]
        x, y = LEFT + (i % 3) * (width - LEFT) / 3, HEIGHT + 8 + 20 * (i // 3)
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        out.append(f'<line x1="{x:.1f}" y1="{y}" x2="{x + 30:.1f}" y2="{y}" stroke="{colour}" stroke-width="2.2"{dash}/>')
        out.append(f'<text x="{x + 38:.1f}" y="{y + 4}">{escape(label)}</text>')
    out.append(f'<text x="{LEFT}" y="{height - 10}">Medians; less is better. {escape(machine)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", help="what the bench wrote: build/bench/comm.json")
    parser.add_argument("image", help="the SVG to write")
    arguments = parser.parse_args()
    panels, machine = read(arguments.results)
    if not panels:
        sys.exit(f"{arguments.results} has no rows of all_reduce; run scripts/bench comm")
    image = pathlib.Path(arguments.image)
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_text(draw(panels, machine))
    print(f"{image}: {sum(len(series) for series in panels.values())} lines in {len(panels)} panels")


if __name__ == "__main__":
    main()
