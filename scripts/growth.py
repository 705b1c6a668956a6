"""By which law cost should grow with how many there are, and by how much it did: docs/figures.md, "How cost grows"."""

from math import log

from tables import Table, line

# A constant that is measured twice on these machines differs by as much.
SLACK = 1.5
LAWS = {
    "O(1)": lambda few, many: 1,
    "O(log n)": lambda few, many: log(many) / log(few),
}


class Law:
    """Of one column: from the row with `few` to the last one, the cost of each grows no more than the law says.
    With a `bound`, another column of the row with few, the law is that the cost stays below that."""

    def __init__(self, what, unit, table, count, column, few, law="O(1)", bound=None, **where):
        self.what, self.unit, self.table, self.count = what, unit, table, count
        self.column, self.few, self.law, self.bound, self.where = column, few, law, bound, where

    def ends(self):
        table = Table(self.table)
        rows = table.rows(**self.where)
        return table, next(row for row in rows if row[table.place(self.count)] >= self.few), rows[-1]

    def row(self):
        table, first, last = self.ends()
        few, many = (row[table.place(self.count)] for row in (first, last))
        one, other = (table.cell(row, self.column) for row in (first, last))
        grown = other.median / one.median if one.median else float("inf")
        if self.bound:
            keeps = other.median <= table.cell(first, self.bound).median
        else:
            keeps = grown <= SLACK * LAWS[self.law](few, many)
        told = [f"{figure.plain()} {self.unit}".strip() for figure in (one, other)]
        verdict = "yes" if keeps else "**no**"
        return line([self.what, f"{few:,} to {many:,} {self.count}", *told, f"{grown:.2f}", self.law, verdict, table.name])


def laws():
    leases, waiters, masters, connections = [f"growth-{it}" for it in ["leases", "waiters", "masters", "connections"]]
    yield Law("Heap of a lease, renewed and watched", "bytes", leases, "leases", "bytes a lease, renewed", 1_000)
    yield Law("A lease at the server", "bytes", leases, "leases", "bytes a lease at the server", 1_000)
    yield Law("A renewal, CPU of the client", "µs", leases, "leases", "CPU here, µs a renewal", 1_000)
    yield Law("A renewal, CPU of the server", "µs", leases, "leases", "CPU of the server, µs a renewal", 1_000)
    for place in ["in the line of a process", "in the queue of the server"]:
        for what, unit, column in [
            ("scripts", "", "scripts"),
            ("CPU of the server", "µs", "CPU of the server, µs"),
            ("time in bare round trips", "", "bare round trips"),
        ]:
            yield Law(f"A hand-over {place}: {what}", unit, waiters, "waiters", column, 10, where=place)
        yield Law(f"A waiter {place}", "bytes", waiters, "waiters", "bytes a waiter", 100, where=place)
    yield Law("A pair of one task on a Cluster, CPU of the client", "µs", masters, "masters", "CPU, µs a pair of one task", 1)
    yield Law("A pair of 64 tasks on a Cluster, CPU of the client", "µs", masters, "masters", "CPU, µs a pair of 64 tasks", 1,
              "less than of one task", "CPU, µs a pair of one task")  # fmt: skip
    yield Law("A connection at the server", "bytes", connections, "connections", "bytes a connection", 10)
    yield Law("A quiet connection, CPU of the server a second", "µs", connections, "connections",
              "CPU while quiet, µs a second and connection", 100)  # fmt: skip
    yield Law("A pair, CPU of the server, all processes busy", "µs", connections, "connections", "CPU, µs a pair", 100, "O(log n)")


def rows():
    head = ["| What each costs | From | Of few | Of many | Grows by | Law | Kept | Table |", "|---|---|---:|---:|---:|---|---|---|"]
    return "\n".join([*head, *(law.row() for law in laws())])


def charts():
    """Of each table: its name, a title, what is counted, and the lines."""
    titles = {
        "growth-leases": "What each lease costs, over what it costs of fewest",
        "growth-waiters": "What each hand-over costs, over what it costs with fewest waiters",
        "growth-masters": "What each pair costs the client, over what it costs with one master",
        "growth-connections": "What each connection costs the server, over what it costs of fewest",
    }
    for name, title in titles.items():
        own = [law for law in laws() if law.table == name]
        yield name, title, own[0].count, [(law.what, law.column, law.where) for law in own]
