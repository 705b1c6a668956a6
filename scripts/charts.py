"""Charts of the tables of docs/bench: bars with the spread of rounds, and lines."""

from math import log2, log10

from svg import BLUE, GREEN, GREY, RED, Picture

OURS, FLOOR, PEER = RED, GREY, BLUE
PEERS = [BLUE, GREEN, "#8a63d2", "#b8860b", "#c2557f", "#5f8f1f", "#4aa3a3"]


def is_ours(who):
    return who.startswith("leasehold")


def colour_of(who):
    is_floor = who.startswith(("bare", "blocking"))
    return OURS if is_ours(who) else FLOOR if is_floor else PEER


def bars(table, title, group, who, column, most):
    """One group of bars for each runtime; a spread beyond `most` ends in an arrow."""
    groups = list(dict.fromkeys(row[table.place(group)] for row in table.cells))
    it = Picture(title, 900, 70 + 34 * len(groups) + 18 * len(table.cells))
    it.text(20, 26, title, "start", size=17)
    left, width = 250, 480

    def x(value):
        return round(left + min(value, most) / most * width, 1)

    y = 44
    for name in groups:
        it.text(20, y + 14, name, "start", size=14)
        y += 22
        for row in table.rows(**{group: name}):
            contender, figure = row[table.place(who)], table.cell(row, column)
            colour = colour_of(contender)
            it.text(32, y + 13, contender, "start")
            it.add(
                f'<rect x="{left}" y="{y + 2}" width="{x(figure.median) - left:.1f}" height="13" rx="2" '
                f'fill="{colour}" fill-opacity="0.75"></rect>'
            )
            if figure.high > most:
                it.arrow(x(figure.low), y + 9, left + width + 10, y + 9)
            else:
                it.line(x(figure.low), y + 9, x(figure.high), y + 9, "currentColor")
            it.text(left + width + 20, y + 13, str(figure), "start", size=12)
            y += 18
        y += 12
    it.text(20, it.height - 10, table.machine(), "start", GREY, 11)
    return it.svg()


def lines(table, title, panel, who, x_column, column):
    """A panel for each runtime, side by side; the first axis doubles from step to step."""
    panels = list(dict.fromkeys(row[table.place(panel)] for row in table.cells))
    panels = [name for name in panels if name != "-"]
    it = Picture(title, 900, 500)
    it.text(20, 26, title, "start", size=17)
    points = [row for row in table.cells if row[table.place(panel)] != "-"]
    most = max(table.cell(row, column).median for row in points) * 1.05
    steps = sorted({row[table.place(x_column)] for row in points})
    for number, name in enumerate(panels):
        left, top, width, height = 60 + 440 * number, 70, 370, 300

        def place(tasks, value):
            x = left + log2(tasks) / log2(steps[-1]) * width
            return round(x, 1), round(top + height * (1 - value / most), 1)

        it.text(left, top - 14, name, "start", size=14)
        for tenth in range(int(most * 5) + 1):
            _, y = place(1, tenth / 5)
            it.add(f'<line x1="{left}" y1="{y}" x2="{left + width}" y2="{y}" stroke="{GREY}" stroke-opacity="0.3"></line>')
            it.text(left - 8, y + 4, f"{tenth / 5:.1f}", "end", size=11)
        for tasks in steps:
            it.text(place(tasks, 0)[0], top + height + 18, str(tasks), size=11)
        it.text(left + width / 2, top + height + 36, x_column, size=12)
        peers = iter(PEERS)
        contenders = dict.fromkeys(row[table.place(who)] for row in points)
        for order, contender in enumerate(contenders):
            colour = OURS if is_ours(contender) else next(peers)
            rows = table.rows(**{panel: name, who: contender})
            at = [place(row[table.place(x_column)], table.cell(row, column).median) for row in rows]
            dashes = ' stroke-dasharray="6 4"' if contender.endswith("fenced") else ""
            path = " ".join(f"{x},{y}" for x, y in at)
            it.add(
                f'<polyline points="{path}" fill="none" stroke="{colour}" '
                f'stroke-width="{3 if is_ours(contender) else 2}"{dashes}></polyline>'
            )
            if number == 0:
                x, y = 60 + 215 * (order % 4), 430 + 20 * (order // 4)
                it.add(
                    f'<line x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" stroke="{colour}" stroke-width="3"{dashes}></line>'
                )
                it.text(x + 30, y + 4, contender, "start", size=12)
    it.text(20, it.height - 10, table.machine(), "start", GREY, 11)
    return it.svg()


def growth(table, title, count, series):
    """What each costs, over what it costs where there are fewest; both axes grow tenfold from step to step.
    `series` has each line's name, column and rows."""
    it = Picture(title, 900, 380 + 20 * ((len(series) + 1) // 2))
    it.text(20, 26, title, "start", size=17)
    drawn = {}
    for name, column, where in series:
        rows = [row for row in table.rows(**where) if table.cell(row, column).median]
        first = table.cell(rows[0], column).median
        drawn[name] = [(row[table.place(count)], table.cell(row, column).median / first) for row in rows]
    points = [point for line in drawn.values() for point in line]
    counts = sorted({many for many, _ in points})
    # One line and a half to either side of those that are level.
    low = min([0.5, *(grown for _, grown in points)]) / 1.2
    high = max([2, *(grown for _, grown in points)]) * 1.2
    left, top, width, height = 70, 60, 790, 260
    wide = max(log10(counts[-1] / counts[0]), 0.01)

    def place(many, grown):
        x = left + log10(many / counts[0]) / wide * width
        return round(x, 1), round(top + height * (1 - log10(grown / low) / log10(high / low)), 1)

    for level in [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]:
        if low <= level <= high:
            _, y = place(counts[0], level)
            it.add(f'<line x1="{left}" y1="{y}" x2="{left + width}" y2="{y}" stroke="{GREY}" stroke-opacity="0.3"></line>')
            it.text(left - 8, y + 4, f"{level:g}", "end", size=11)
    for many in counts:
        it.text(place(many, 1)[0], top + height + 18, f"{many:,}", size=11)
    it.text(left + width / 2, top + height + 36, count, size=12)
    for order, (name, line) in enumerate(drawn.items()):
        colour = [OURS, *PEERS][order % (len(PEERS) + 1)]
        path = " ".join(f"{x},{y}" for x, y in (place(*point) for point in line))
        it.add(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"></polyline>')
        for point in line:
            x, y = place(*point)
            it.add(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"></circle>')
        x, y = left + 410 * (order % 2), top + height + 62 + 20 * (order // 2)
        it.add(f'<line x1="{x}" y1="{y - 4}" x2="{x + 24}" y2="{y - 4}" stroke="{colour}" stroke-width="3"></line>')
        it.text(x + 30, y, name, "start", size=12)
    it.text(20, it.height - 10, table.machine(), "start", GREY, 11)
    return it.svg()
