"""What is aimed at, and where the tables say how near it is: the rows of docs/figures.md and docs/bench/aims.md."""

import re

from tables import Figure, Table

# What tells cases of one aim apart, at the end of its words or behind a colon.
CASE = re.compile(r"(?:,? beside |, )(?:[\d,]+ (?:tasks|members)|five healthy|one frozen|one dead)$")

RUNTIMES = {
    "current_thread": "one thread",
    "multi_thread, on a worker": "two threads, on a worker",
    "multi_thread, in block_on": "two threads, in `block_on`",
}
PEERS = [
    "redis-rs, multiplexed", "redis-rs, manager", "redis-rs", "rustis", "rslock", "fred", "deadpool-redis",
    "redis-protocol, Bytes", "redis-protocol, ranges", "redis-protocol, borrowed",
    "rslock, by default", "redis-rs, trying each millisecond",
]  # fmt: skip
PLACES = {"all on one CPU": "all on one CPU", "server on one CPU, client on another": "server and client on a CPU each"}


class Aim:
    """A figure, and the bound that all of its rounds should keep."""

    def __init__(self, what, bound, figure, source, peer=None, at_most=True, unit=""):
        self.what, self.bound, self.figure, self.source = what, bound, figure, source
        self.peer, self.at_most, self.unit = peer, at_most, unit

    def keeps(self, value):
        return value <= self.bound if self.at_most else value >= self.bound

    def verdict(self):
        """0: in the middle 80 % of rounds; 1: in half of the rounds; 2: not even there."""
        worst = self.figure.high if self.at_most else self.figure.low
        return 0 if self.keeps(worst) else 1 if self.keeps(self.figure.median) else 2

    def told_bound(self):
        return f"{'at most' if self.at_most else 'at least'} {self.bound:,}{self.unit}"

    def kind(self):
        """What it has in common with other cases of the same aim."""
        return CASE.sub("", self.what.split(": ")[0]), self.told_bound(), self.unit, self.source

    def row(self):
        bound = self.told_bound()
        peer = f"{self.peer[0]}: {self.peer[1]}{self.unit}" if self.peer else ""
        return f"| {self.what} | {bound} | {self.figure}{self.unit} | {peer} | {self.source} |"


def by_kind():
    """The aims, those of one kind together, in a row each: how many cases there are of each verdict, and the medians."""
    kinds = {}
    for aim in all_aims():
        kinds.setdefault(aim.kind(), []).append(aim)
    for (what, bound, unit, source), cases in kinds.items():
        counts = [sum(aim.verdict() == wanted for aim in cases) for wanted in (0, 1, 2)]
        least, most = (choose((aim.figure for aim in cases), key=lambda figure: figure.median) for choose in (min, max))
        medians = least.plain() if least.plain() == most.plain() else f"{least.plain()} to {most.plain()}"
        yield f"| {what} | {bound} | {medians}{unit} | {' | '.join(str(count or '') for count in counts)} | {source} |"


def uncontended(name):
    """Of one table: where the scheduler chooses, or pinned."""
    table = Table(name)
    places = list(dict.fromkeys(row[0] for row in table.cells)) if "placement" in table.columns else [None]
    for place in places:
        here = {"placement": place} if place else {}
        behind = f"; {PLACES[place]}" if place in PLACES else ""
        for runtime, words in RUNTIMES.items():
            where = {"runtime": runtime, **here}

            def aim(what, bound, column, contender="leasehold"):
                peer = None if contender != "leasehold" else table.best(column, "contender", PEERS, **where)
                figure = table.figure(column, contender=contender, **where)
                return Aim(f"{what}: {words}{behind}", bound, figure, name, peer)

            yield aim("Uncontended lock and release over a bare tokio stream", 1.05, "over bare")
            yield aim("Uncontended lock and release, fenced, over a bare tokio stream", 1.05, "over bare", "leasehold, fenced")
            yield aim("CPU of the unfenced pair over that of the bare stream", 1.15, "CPU over bare")
        if not place:
            yield allocations(table)


def allocations(table):
    where = {"runtime": "current_thread"}
    column = "allocations a pair"
    bare = table.figure(column, contender="bare tokio stream", **where).median

    def beyond(figure):
        return Figure(*(it - bare for it in (figure.median, figure.low, figure.high)), 0)

    name, best = table.best(column, "contender", PEERS, **where)
    ours = beyond(table.figure(column, contender="leasehold", **where))
    what = "Heap allocations of a pair, beyond those of the bare stream"
    return Aim(what, 0, ours, table.name, (name, beyond(best)))


def throughput():
    table = Table("throughput")
    for contender, lease in [("leasehold", "Unfenced"), ("leasehold, fenced", "Fenced")]:
        for runtime, bound in [("current_thread", 0.95), ("multi_thread, on a worker", 0.90)]:
            for tasks in [64, 256, 1024]:
                where = {"runtime": runtime, "tasks": tasks}
                figure = table.figure("of the ceiling", contender=contender, **where)
                peer = None
                if lease == "Unfenced":
                    peer = table.best("of the ceiling", "contender", PEERS, least=False, **where)
                what = f"{lease} locks on one connection, share of the server's ceiling, {tasks} tasks: "
                yield Aim(what + RUNTIMES[runtime], bound, figure, table.name, peer, at_most=False)
    for runtime in ["current_thread", "multi_thread, on a worker"]:
        where, column = {"runtime": runtime, "tasks": 256}, "CPU, µs a pair"
        peer = table.best(column, "contender", PEERS, **where)
        figure = table.figure(column, contender="leasehold", **where)
        what = f"Client CPU of an unfenced pair at 256 tasks: {RUNTIMES[runtime]}"
        yield Aim(what, 2, figure, table.name, peer, unit=" µs")


def redlock():
    table = Table("redlock")
    for lease in ["unfenced", "fenced"]:
        for runtime in ["current_thread", "multi_thread, on a worker"]:
            for servers in ["five healthy", "one frozen", "one dead"]:
                where = {"runtime": runtime, "servers": servers}
                figure = table.figure("over fan-out", contender=f"leasehold, {lease}", **where)
                peer = table.best("over fan-out", "contender", PEERS, **where) if lease == "unfenced" else None
                what = f"Acquire over five servers over a bare fan-out, {lease}, {servers}: {RUNTIMES[runtime]}"
                yield Aim(what, 1.10, figure, table.name, peer)
    for who, words in [("leasehold, unfenced", "unfenced"), ("leasehold, fenced", "fenced")]:
        yield Aim(f"Acquire with one of five servers frozen over five healthy, {words}: one thread", 1.2,
                  frozen_over_healthy(table, who), table.name,
                  ("rslock", frozen_over_healthy(table, "rslock")) if words == "unfenced" else None)  # fmt: skip


def frozen_over_healthy(table, contender):
    where = {"runtime": "current_thread", "contender": contender}
    frozen = table.figure("acquire, µs", servers="one frozen", **where)
    return frozen.over(table.figure("acquire, µs", servers="five healthy", **where))


def codec():
    table = Table("codec")
    for job, bound in [("encode SET NX PX", 60), ("encode EVALSHA", 40)]:
        ours = table.figure("ns each", job=job, codec="leasehold-resp")
        yield Aim(f"Codec, {job}", bound, ours, "codec", table.best("ns each", "codec", PEERS, job=job), unit=" ns")
    job = "decode mixed replies"
    ours = table.figure("ratio", job=job, codec="leasehold-resp")
    yield Aim(f"Codec, {job}, over a bare scan", 2.0, ours, "codec", table.best("ratio", "codec", PEERS, job=job))
    where = {"job": "decode integers"}
    ours = table.figure("allocations each", codec="leasehold-resp", **where)
    peer = table.best("allocations each", "codec", PEERS, **where)
    yield Aim("Codec, allocations to decode an integer", 0, ours, "codec", peer)


def keeping():
    table = Table("renewal")
    for leases in [10_000, 100_000]:
        figure = table.figure("bytes a lease", leases=leases)
        yield Aim(f"Heap of {leases:,} leases, each", 400, figure, "renewal", unit=" bytes")
    figure = table.figure("CPU here, %", leases=100_000)
    yield Aim("CPU of one core to renew 100,000 leases of 30 s", 5, figure, "renewal", unit=" %")


def adoption():
    table = Table("adoption")
    for column, bound, what, unit in [
        ("crates", 25, "Crates in the default tree", ""),
        ("stripped, kB over tokio", 400, "Stripped program over one of tokio alone", " kB"),
        ("over tokio", 1.1, "Clean release build over tokio's own", ""),
    ]:
        ours = table.figure(column, library="leasehold")
        yield Aim(what, bound, ours, "adoption", table.best(column, "library", PEERS), unit=unit)
    smallest = "redis-rs, multiplexed"
    for column, profile in [
        ("stripped, kB over tokio", "by default"),
        ("one unit, kB over tokio", "with one codegen unit"),
        ("small, kB over tokio", "for size, fat LTO, abort"),
    ]:
        ratio = table.figure(column, library="leasehold").over(table.figure(column, library=smallest))
        yield Aim(f"Program over tokio alone, in shares of {smallest}: {profile}", 0.6, ratio, "adoption")


def of_leasehold_alone():
    """By `cargo bench --features full --bench figures`."""
    table = Table("server")
    yield Aim("Server CPU of a fenced pair over an unfenced one, 64 tasks", 1.5,
              table.figure("over unfenced", lease="fenced"), "server")  # fmt: skip
    yield Aim("Server CPU of a fenced pair over a plain one, all sent at once", 1.5,
              table.figure("over plain", lease="fenced"), "server")  # fmt: skip
    table = Table("shares")
    for row in table.cells:
        if row[0] != "plain":
            yield Aim(f"Server CPU of a {row[0]}'s pair over a plain one, all sent at once, beside {row[1]:,} members", 2,
                      table.cell(row, "over plain"), "shares")  # fmt: skip
    table = Table("cluster-routing")
    for runtime, words in RUNTIMES.items():
        for lease in ["fenced", "unfenced"]:
            figure = table.figure("routed over direct", runtime=runtime, lease=lease)
            yield Aim(f"A lock on a Cluster over the same on one server, {lease}: {words}", 1.03, figure, table.name)
    table = Table("failover")
    for what in ["Cluster", "Sentinel"]:
        figure = table.figure("our first grant after the role", what=what)
        yield Aim(f"From the `ROLE` of a killed master's successor to our first grant: {what}", 200, figure,
                  "failover", unit=" ms")  # fmt: skip
    table = Table("hand-over")
    for row in table.cells:
        who, way = row[0], row[1]
        if way == "over a network":
            yield Aim(f"From a release to the next holder, in round trips: {who} {way}", 1.2,
                      table.cell(row, "gap, round trips"), "hand-over")  # fmt: skip
        else:
            bound = 1.2 if "tasks" in who else 1.5
            yield Aim(f"From a release to the next holder, over a bare hand-over by `BLPOP`: {who} {way}", bound,
                      table.cell(row, "gap over BLPOP's"), "hand-over")  # fmt: skip
        if "processes" in who:
            yield Aim(f"Scripts a hand-over: {who} {way}", 4, table.cell(row, "scripts a hand-over"), "hand-over")


def all_aims():
    yield from uncontended("uncontended")
    yield from uncontended("uncontended-pinned")
    yield from throughput()
    yield from redlock()
    yield from codec()
    yield from keeping()
    yield from adoption()
    yield from of_leasehold_alone()
