"""The tables of docs/bench: what `scripts/bench.sh` and `cargo bench --features full --bench figures` have recorded."""

import json
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent.parent / "docs" / "bench"


class Figure:
    """A median of rounds, the range that the middle 80 % of them are in, and how many digits are told."""

    def __init__(self, median, low, high, digits):
        self.median, self.low, self.high, self.digits = median, low, high, digits

    def has_spread(self):
        return (self.low, self.high) != (self.median, self.median)

    def number(self, value):
        return f"{value:,.{self.digits}f}"

    def plain(self):
        return self.number(self.median)

    def __str__(self):
        if not self.has_spread():
            return self.plain()
        return f"{self.plain()} ({self.number(self.low)} to {self.number(self.high)})"

    def over(self, other, digits=2):
        """As far apart as the spreads of both allow: their rounds were not measured side by side."""
        low, high = (it if it else float("nan") for it in (other.low, other.high))
        return Figure(self.median / other.median, self.low / high, self.high / low, digits)


class Table:
    def __init__(self, name):
        told = json.loads((DIRECTORY / f"{name}.json").read_text())
        self.name, self.notes = name, told["notes"]
        self.date, self.cpu, self.cores = told["date"], told["cpu"], told["cores"]
        self.server, self.rustc, self.is_quick = told["server"], told["rustc"], told["quick"]
        self.columns, self.digits, self.cells = told["columns"], told["digits"], told["rows"]

    def machine(self):
        quick = "; a quick run, whose figures say little" if self.is_quick else ""
        return f"{self.cores} cores of {self.cpu}, {self.server}, {self.rustc}, {self.date}{quick}"

    def place(self, column):
        if column not in self.columns:
            raise SystemExit(f"{self.name}.json has no column {column!r}, only {self.columns}")
        return self.columns.index(column)

    def rows(self, **where):
        """Those whose cells are as told; a column's name may have underscores in the place of blanks."""
        wanted = {self.place(column.replace("_", " ")): cell for column, cell in where.items()}
        return [row for row in self.cells if all(row[place] == cell for place, cell in wanted.items())]

    def cell(self, row, column):
        place = self.place(column)
        cell = row[place]
        median, low, high = cell if isinstance(cell, list) else (cell, cell, cell)
        return Figure(median, low, high, self.digits[place])

    def figure(self, column, **where):
        rows = self.rows(**where)
        if len(rows) != 1:
            raise SystemExit(f"{self.name}.json has {len(rows)} rows for {where}, not one")
        return self.cell(rows[0], column)

    def best(self, column, who, among, least=True, **where):
        """The name and the figure of the one that is best by its median."""
        peers = [row for row in self.rows(**where) if row[self.place(who)] in among]
        if not peers:
            raise SystemExit(f"{self.name}.json has no peer for {where}")
        choose = min if least else max
        row = choose(peers, key=lambda row: self.cell(row, column).median)
        return row[self.place(who)], self.cell(row, column)

    def markdown(self):
        lines = [f"## {self.name}", "", self.machine(), "", *self.notes, ""]
        lines += [line(self.columns), line("---" for _ in self.columns)]
        lines += [line(self.shown(row, column) for column in self.columns) for row in self.cells]
        return "\n".join(lines) + "\n"

    def shown(self, row, column):
        cell = row[self.place(column)]
        if cell is None or isinstance(cell, str):
            return cell or "-"
        figure = self.cell(row, column)
        number = lambda value: f"{value:.{figure.digits}f}"
        if not isinstance(cell, list):
            return number(cell)
        return f"{number(figure.median)} ({number(figure.low)} to {number(figure.high)})"


def line(cells):
    return f"| {' | '.join(cells)} |"


def names():
    return sorted(path.stem for path in DIRECTORY.glob("*.json"))
