#!/usr/bin/env python3
"""Makes what documents say of measurements from the recorded tables (docs/bench/*.json), with Python alone.

    scripts/figures.py           writes docs/bench/*.{md,svg}, and the marked blocks of docs/figures.md and other pages
    scripts/figures.py --check   says which of them say something else than the tables, and fails then

`scripts/bench.sh --record` and `cargo bench --features full --bench figures -- --table docs/bench` record
the tables. A block stands between `<!-- figures: NAME -->` and `<!-- /figures -->`. Where a page tells of tables, no
figure may stand outside of a block; and docs/figures.md stays short enough to be read.
"""

import re
import sys
import textwrap
from pathlib import Path

sys.dont_write_bytecode = True

import aims  # noqa: E402
import charts  # noqa: E402
import growth  # noqa: E402
from tables import DIRECTORY, Table, line, names  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
HEAD = "| | Aim | Is | Best other client | Table |\n|---|---:|---:|---|---|"
# Lines of docs/figures.md: each case and each table have pages of their own.
LINES_MAX = 200
# 1.05, 12 µs, 90 %, 3.5 times: but no version, and no date.
LOOSE = re.compile(r"(?<![\d.-])\d[\d,]*(?:\.\d+(?![\d.])|\s?(?:µs|ns|ms|kB|%|times\b))")


VERDICTS = ["Reached in nearly all rounds", "Reached by the median, not by all rounds", "Not reached"]


def verdicts():
    """Each case of each aim: docs/bench/aims.md."""
    text = ["# Aims, case by case", "", "By `scripts/figures.py`, from the tables beside this page; ../figures.md has them in short."]
    for wanted, heading in enumerate(VERDICTS):
        text += ["", f"## {heading}", "", HEAD, *(aim.row() for aim in aims.all_aims() if aim.verdict() == wanted)]
    return "\n".join(text) + "\n"


def by_kind():
    head = "| | Aim | Medians | Reached | By the median | Not reached | Table |\n|---|---:|---:|---:|---:|---:|---|"
    return "\n".join([head, *aims.by_kind()])


def beside_peers():
    table = Table("throughput")
    rows = ["| Runtime | Tasks | Leasehold | Best other client | Leasehold over it |", "|---|---:|---:|---|---:|"]
    for runtime, tasks, ours, (name, peer) in throughput_cells(table):
        rows.append(f"| {aims.RUNTIMES[runtime]} | {tasks} | {ours} | {name}: {peer} | {ours.over(peer)} |")
    return "\n".join(rows)


def throughput_cells(table):
    for runtime in ["current_thread", "multi_thread, on a worker"]:
        for tasks in [1, 8, 16, 64, 256, 1024]:
            where, column = {"runtime": runtime, "tasks": tasks}, "pairs a second"
            ours = table.figure(column, contender="leasehold", **where)
            yield runtime, tasks, ours, table.best(column, "contender", aims.PEERS, least=False, **where)


def where_measured():
    """What is in docs/bench: its README.md."""
    tables = [Table(name) for name in names()]
    lines = ["# Recorded tables", "", "By `scripts/figures.py`: what was recorded when and where. ../figures.md says what they show.", ""]
    lines += ["| Table | Recorded | Where | Of what |", "|---|---|---|---|"]
    for table in tables:
        where = f"{table.cores} cores of {table.cpu}, {table.server}" + ("; a quick run" if table.is_quick else "")
        first = " ".join(table.notes).split(". ")[0].split("; ")[0].rstrip(".")
        lines.append(f"| [{table.name}]({table.name}.md) | {table.date} | {where} | {first} |")
    return "\n".join(lines) + "\n"


def measured():
    """The README's table."""
    pair, crowd, redlock, adoption = Table("uncontended"), Table("throughput"), Table("redlock"), Table("adoption")
    size = dict(row.split() for row in (ROOT / "benches" / "size.txt").read_text().splitlines() if not row.startswith("#"))
    one_thread = {"runtime": "current_thread"}
    tree = [adoption.figure("crates", library=library) for library in ["leasehold", "redis-rs, multiplexed", "rslock"]]
    kb = [float(size["release-default"]), float(size["release-redis-rs"])]
    kb.append(adoption.figure("stripped, kB over tokio", library="rslock").median)
    pairs = [pair.figure("over bare", contender=name, **one_thread) for name in [*CONTENDERS, FENCED]]
    tasks = [[crowd.figure("pairs a second", contender=name, tasks=count, **one_thread).plain() for count in (64, 1024)]
             for name in [*CONTENDERS, FENCED]]  # fmt: skip
    frozen = [f"{redlock.figure('acquire, µs', contender=name, servers='one frozen', **one_thread).median / 1000:.{digits}f}"
              for name, digits in [("leasehold, unfenced", 2), ("rslock", 0), ("leasehold, fenced", 2)]]  # fmt: skip
    # Others have no tokens.
    *pairs, fenced_pair = (figure.plain() for figure in pairs)
    *tasks, fenced_tasks = map(" and ".join, tasks)
    pairs[0] += f" ({fenced_pair})"
    tasks[0] += f" ({fenced_tasks})"
    rows = [
        ["Crates in the tree (redis-rs: default features)", *(figure.plain() for figure in tree)],
        ["Size over a program of tokio alone, stripped, kB (redis-rs: no default features)", *(f"{kilobytes:,.0f}" for kilobytes in kb)],
        ["A lock and its release by one task: time, in multiples of a plain lock's commands on a bare TCP stream", *pairs],
        ["64 and 1,024 tasks with a lock each on one connection, pairs a second", *tasks],
        ["An acquire over five servers, one of them frozen, ms",
         f"{frozen[0]} ({frozen[2]})", "", frozen[1]],
    ]  # fmt: skip
    dates = {"pairs a second": crowd.date, "frozen": redlock.date, "crates, rslock's size": adoption.date}
    others = {date: [what for what, on in dates.items() if on == date] for date in dict.fromkeys(dates.values()) if date != pair.date}
    since = "".join(f"; {', '.join(what)}, {date}" for date, what in others.items())
    text = f"""
        Medians of `scripts/bench.sh`, sizes of `scripts/size.sh`: {pair.cores} cores of {pair.cpu}, one thread, {pair.date}{since}.
        Locks without a token; in brackets with one, the default. [docs/figures.md](docs/figures.md) has all, missed aims too.
    """
    wrapped = textwrap.fill(" ".join(text.split()), 140, break_on_hyphens=False, break_long_words=False)
    table = [line(["", "Leasehold", "redis-rs", "rslock"]), line(["---"] + ["---:"] * 3), *map(line, rows)]
    return "\n".join([wrapped, "", *table])


CONTENDERS = ["leasehold", "redis-rs, multiplexed", "rslock"]
FENCED = "leasehold, fenced"


def alternatives(columns):
    """Of the stores, these columns."""
    table = Table("alternatives")
    rows = [line(["Store", "Servers", "Locks written", *columns.values()]), line(["---", "---:", "---"] + ["---:"] * len(columns))]
    for row in table.cells:
        shown = [table.shown(row, column) for column in ["store", "servers", "written", *columns]]
        rows.append(line(shown))
    return "\n".join([f"By `scripts/bench.sh alternatives` on {table.machine()}.", "", *rows])


def beside_members():
    """What each library's shares cost the server, beside few members and many."""
    table = Table("members")
    rows = [line(["", "Library", *(f"{members:,} members" for members in MEMBERS)]), line(["---"] * 2 + ["---:"] * len(MEMBERS))]
    for what, library in dict.fromkeys((row[0], row[1]) for row in table.cells):
        of_it = {row[2]: table.cell(row, "CPU, µs a pair").plain() for row in table.rows(what=what, library=library)}
        # What nobody else can hold meanwhile has no members.
        cells = [of_it.get(members, of_it.get(0) if members == MEMBERS[0] else "") for members in MEMBERS]
        rows.append(line([what, library, *cells]))
    where = f"By `scripts/bench.sh members` on {table.machine()}; microseconds a pair, or a call of what is not given back."
    return "\n".join([where, "", *rows])


def idle():
    """What a locker costs while nobody asks it for anything."""
    table = Table("idle")
    rows = [line(table.columns), line(["---"] + ["---:"] * (len(table.columns) - 1))]
    rows += [line([row[0], *(table.cell(row, column).plain() for column in table.columns[1:])]) for row in table.cells]
    return "\n".join([f"By `cargo bench --bench figures -- --idle` on {table.machine()}.", "", *rows])


MEMBERS = [10, 1_000, 10_000]
ALONE = {
    "pair p50, µs": "Lock and release, µs, p50",
    "pair p99, µs": "p99",
    "64 clients, pairs a second": "64 clients with a lock each, pairs a second",
    "after SIGKILL, ms": "SIGKILL of a holder to the next grant, ms",
    "token": "Token",
}
CONTENDED = {
    "hand-over of 2, µs": "2 processes: idle between holders, µs",
    "its server CPU, µs": "server CPU, µs",
    "hand-over of 8, µs": "8 processes",
    "its server CPU of 8, µs": "server CPU",
    "hand-over of 64, µs": "64 processes",
    "its server CPU of 64, µs": "server CPU",
}

BLOCKS = {
    "stores alone": lambda: alternatives(ALONE),
    "stores contended": lambda: alternatives(CONTENDED),
    "aims": by_kind,
    "beside peers": beside_peers,
    "beside members": beside_members,
    "measured": measured,
    "growth": growth.rows,
    "idle": idle,
}
BLOCK = re.compile(r"<!-- figures: ([^>]+) -->\n(.*?)<!-- /figures -->", re.DOTALL)


def with_blocks(text):
    return BLOCK.sub(lambda found: f"<!-- figures: {found[1]} -->\n{BLOCKS[found[1]]()}\n<!-- /figures -->", text)


def loose_figures(page, text):
    """In the README, under its heading."""
    told = text.split("\n## Measured\n")[1].split("\n## ")[0] if page.name == "README.md" else text
    for line in BLOCK.sub("", told).splitlines():
        if not line.startswith("!["):
            yield from (f"{page.name}: {found[0]!r} stands outside of a block: {line}" for found in LOOSE.finditer(line))


def documents():
    """Each file, and what it has to say."""
    for name in names():
        yield DIRECTORY / f"{name}.md", Table(name).markdown()
    yield DIRECTORY / "README.md", where_measured()
    yield DIRECTORY / "aims.md", verdicts()
    title = "A lock and its release, one task, in multiples of a bare tokio stream (less is better)"
    yield DIRECTORY / "uncontended.svg", charts.bars(Table("uncontended"), title, "runtime", "contender", "over bare", 2.2)
    title = "Locks a second on one connection, in shares of the server's ceiling (more is better)"
    chart = charts.lines(Table("throughput"), title, "runtime", "contender", "tasks", "of the ceiling")
    yield DIRECTORY / "throughput.svg", chart
    for name, title, count, series in growth.charts():
        yield DIRECTORY / f"{name}.svg", charts.growth(Table(name), title, count, series)
    for page in [ROOT / "docs" / "figures.md", ROOT / "docs" / "alternatives.md", ROOT / "docs" / "sharing.md", ROOT / "README.md"]:
        yield page, with_blocks(page.read_text())


def main(arguments):
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    wrong = []
    for path, fresh in documents():
        # What sharing.md says of clocks and quorums is not measured.
        if path.suffix == ".md" and path.parent != DIRECTORY and path.name != "sharing.md":
            wrong.extend(loose_figures(path, fresh))
        if path.name == "figures.md" and fresh.count("\n") > LINES_MAX:
            wrong.append(f"docs/figures.md has {fresh.count(chr(10))} lines; at most {LINES_MAX}: a case belongs into docs/bench")
        if arguments:
            if not path.exists() or path.read_text() != fresh:
                wrong.append(f"{path.relative_to(ROOT)} says something else than the tables (run scripts/figures.py)")
        else:
            path.write_text(fresh)
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
