"""Exclusion of leases (safety rules 1, 2, 4, 6, 7 and 9; `src/machine`, `src/policy/validity.rs`).

Claim. Two owners never hold one lock at once, unless both read, if at most k servers forget: whatever
messages are lost, late or repeated, however often servers restart without memory under the restart quarantine, with
TTLs that differ, through extensions, repairs and hand-overs. k = 2q - N - 1 for an exclusive lock, in which nobody
reads; for readers and writers k is below 2W - N and below R + W - N.

Time is real, and one clock. `worth` is an attempt's TTL less the drift: a server keeps a key for at least that
long, and a client believes in its lease for no longer; `clocks` derives both from what the README asks of
clocks. A server's word for an attempt is good to `until`: the deadline of a client that counts that word. A
server that restarted without memory votes again at `votes_from`.

An ended lease (released, lost, handed over) never holds again; messages of its past may still arrive.
"""

import z3
from z3 import And, If, Implies, Not, Or

from quorums import majorities, writers_share
from system import BOOL, REAL, System, at, where


def clocks():
    """A client that counts to TTL - drift is done before a server has counted to TTL. None fail."""
    client, server, ttl = z3.Reals("client server ttl")
    drift = ttl / 100 + 2
    solver = z3.Solver()
    # Over one TTL, the two clocks run within 1 % + 2 ms of each other.
    solver.add(ttl > 0, client >= 0, server <= client + drift)
    solver.add(client < ttl - drift, server >= ttl)
    return [] if solver.check() == z3.unsat else ["the drift covers what the clocks may differ by"]


def exclusion(rule=None):
    """The system; with a rule weakened, where one is named."""

    def tick(m, s, now):
        return now > s.now(), {"now": at(now)}

    def ask(m, s, a):
        """An attempt asks all servers. A successor asks in its predecessor's stead, which ends."""
        gone = lambda b: And(m.succeeds(a, b), rule != "the predecessor goes on")  # noqa: E731
        updates = {
            "asked": at(a, True),
            "sent": at(a, s.now()),
            "ended": where(gone, lambda b: True),
        }
        return And(Not(s.asked(a)), Not(s.ended(a))), updates

    def end(m, s, a):
        """Released, lost or given up; `revives` goes on with an ended lease."""
        return s.asked(a), {"ended": at(a, True)}

    def grants(m, s, server, a, sent):
        """What a server's word for a question of that moment is good for."""
        until, old = sent + m.worth(a), s.until(server, a)
        return {"until": at(server, a, If(until > old, until, old))}

    def accept(m, s, server, a):
        """A server takes the acquire: the lock is free there, or the predecessor's, or all read."""
        def lets_in(b):
            shares = And(m.reads(a), Or(m.reads(b), rule == "a reader ignores writers"))
            return Implies(s.held(server, b), Or(m.succeeds(a, b), shares))

        free = m.every("Attempt", lets_in)
        votes = True if rule == "no restart quarantine" else s.now() >= s.votes_from(server)
        updates = {
            "held": where(
                lambda x, b: x == server,
                lambda x, b: Or(b == a, And(s.held(x, b), Not(m.succeeds(a, b))))),
            "set_at": at(server, a, s.now()),
        }
        updates.update(grants(m, s, server, a, s.sent(a)))
        return And(s.asked(a), free, votes), updates

    def extend(m, s, a):
        """A holder asks all servers for another TTL. One round is counted at a time."""
        allowed = Or(Not(s.ended(a)), rule == "a lost lease is extended")
        return And(s.holds(a), allowed), {"sent": at(a, s.now())}

    def extended(m, s, server, a):
        updates = {"set_at": at(server, a, s.now())}
        updates.update(grants(m, s, server, a, s.sent(a)))
        return And(s.asked(a), s.held(server, a)), updates

    def late(m, s, server, a):
        """An extension of a round that nobody counts any more."""
        return And(s.asked(a), s.held(server, a)), {"set_at": at(server, a, s.now())}

    def win(m, s, a, quorum, deadline):
        """A client counts a quorum's words, of one round: its deadline is the least of them."""
        def word(server):
            until = s.until(server, a)
            if rule == "validity counts from the reply":
                until = If(until > 0, s.now() + m.worth(a), until)
            return Implies(m.member(server, quorum), deadline <= until)

        enough = m.every("Server", word)
        if rule == "one server is enough":
            enough = m.some("Server", lambda x: deadline <= s.until(x, a))
        alive = Or(Not(s.ended(a)), rule == "a lost lease is extended")
        if rule == "a lost lease is extended":
            updates = {"ended": at(a, False)}
        else:
            updates = {}
        updates |= {"holds": at(a, True), "deadline": at(a, deadline), "won_by": at(a, quorum)}
        kind = Or(m.reads(a), m.for_writing(quorum))
        return And(s.asked(a), alive, kind, s.now() < deadline, enough), updates

    def drop(server, which):
        return {"held": where(lambda x, b: And(x == server, which(b)), lambda x, b: False)}

    def expire(m, s, server, a):
        due = s.now() >= s.set_at(server, a) + m.worth(a)
        if rule == "validity without drift":
            due = s.now() >= s.set_at(server, a) + m.worth(a) - m.drift()
        return due, drop(server, lambda b: b == a)

    def release(m, s, server, a):
        which = (lambda b: True) if rule == "a release deletes any lock" else (lambda b: b == a)
        return s.ended(a), drop(server, which)

    def repair(m, s, server, a):
        """Sets the lock where it is gone, for a lease that is valid; the answer is no vote."""
        free = m.every("Attempt", lambda b: Implies(s.held(server, b), compatible(m, a, b)))
        votes = s.now() >= s.votes_from(server)
        fit = True if rule == "repair in quarantine" else votes
        updates = {"held": at(server, a, True), "set_at": at(server, a, s.now())}
        return And(s.holds(a), free, fit), updates

    def restart(m, s, server):
        """Without memory, under the guard: no vote for as long as the longest lease may last."""
        wait = m.longest() / 2 if rule == "short quarantine" else m.longest()
        updates = drop(server, lambda b: True)
        updates["votes_from"] = at(server, s.now() + wait)
        return True, updates

    def forget(m, s, server):
        """Without a guard: eviction, a clock set forward, a failover. At most k servers."""
        return m.forgetful(server), drop(server, lambda b: True)

    def valid(s, a):
        return And(s.holds(a), Not(s.ended(a)), s.now() < s.deadline(a))

    def backed(m, s, server, a):
        """A server that remembers, and whose word for a lease that goes on is still good."""
        return And(Not(m.forgetful(server)), Not(s.ended(a)), s.now() < s.until(server, a))

    def compatible(m, a, b):
        return Or(a == b, And(m.reads(a), m.reads(b)))

    return System(
        name="exclusion",
        sorts=["Server", "Attempt", "Quorum"],
        rigid={
            "member": (["Server", "Quorum"], BOOL),
            "common": (["Quorum", "Quorum"], "Server"),
            "for_writing": (["Quorum"], BOOL),
            "reads": (["Attempt"], BOOL),
            "forgetful": (["Server"], BOOL),
            "succeeds": (["Attempt", "Attempt"], BOOL),
            "worth": (["Attempt"], REAL),
            "longest": ([], REAL),
            "drift": ([], REAL),
        },
        state={
            "now": ([], REAL),
            "asked": (["Attempt"], BOOL),
            "ended": (["Attempt"], BOOL),
            "holds": (["Attempt"], BOOL),
            "sent": (["Attempt"], REAL),
            "deadline": (["Attempt"], REAL),
            "won_by": (["Attempt"], "Quorum"),
            "held": (["Server", "Attempt"], BOOL),
            "set_at": (["Server", "Attempt"], REAL),
            "until": (["Server", "Attempt"], REAL),
            "votes_from": (["Server"], REAL),
        },
        axioms={
            "two quorums share a server that remembers":
                writers_share(may_forget=rule == "one loss too many"),
            "TTLs": lambda m: m.every(
                "Attempt", lambda a: And(0 < m.worth(a), m.worth(a) <= m.longest())),
            "drift": lambda m: And(m.drift() > 0, m.every("Attempt", lambda a: m.drift() < m.worth(a))),
            "nobody succeeds itself": lambda m: m.every("Attempt", lambda a: Not(m.succeeds(a, a))),
        },
        start={
            "time begins": lambda m, s: s.now() == 0,
            "nobody asked": lambda m, s: m.every(
                "Attempt", lambda a: And(Not(s.asked(a)), Not(s.ended(a)), Not(s.holds(a)), s.sent(a) == 0)),
            "all is free": lambda m, s: m.every(
                "Server", "Attempt", lambda x, a: And(
                    Not(s.held(x, a)), s.until(x, a) == 0, s.set_at(x, a) == 0)),
            "all vote": lambda m, s: m.every(
                "Server", lambda x: s.votes_from(x) == 0),
        },
        actions={
            "tick": ([REAL], tick),
            "ask": (["Attempt"], ask),
            "accept": (["Server", "Attempt"], accept),
            "win": (["Attempt", "Quorum", REAL], win),
            "extend": (["Attempt"], extend),
            "extended": (["Server", "Attempt"], extended),
            "late extension": (["Server", "Attempt"], late),
            "end": (["Attempt"], end),
            "expire": (["Server", "Attempt"], expire),
            "release": (["Server", "Attempt"], release),
            "repair": (["Server", "Attempt"], repair),
            "restart": (["Server"], restart),
            "forget": (["Server"], forget),
        },
        invariants={
            "time has begun": lambda m, s: s.now() >= 0,
            "what was sent was sent by now": lambda m, s: m.every(
                "Attempt", lambda a: s.sent(a) <= s.now()),
            "a predecessor has ended": lambda m, s: m.every(
                "Attempt", "Attempt",
                lambda a, b: Implies(And(s.asked(a), m.succeeds(a, b)), s.ended(b))),
            "a server has one holder, or readers": lambda m, s: m.every(
                "Server", "Attempt", "Attempt",
                lambda x, a, b: Implies(And(s.held(x, a), s.held(x, b)), compatible(m, a, b))),
            "only what was asked is held": lambda m, s: m.every(
                "Server", "Attempt", lambda x, a: Implies(Or(s.held(x, a), s.until(x, a) > 0), s.asked(a))),
            "in quarantine nothing is held": lambda m, s: m.every(
                "Server", "Attempt", lambda x, a: Implies(s.held(x, a), s.now() >= s.votes_from(x))),
            "a server's word reaches no further than a TTL": lambda m, s: m.every(
                "Server", "Attempt",
                lambda x, a: s.until(x, a) <= s.now() + m.worth(a)),
            "a good word is backed by a key or by the quarantine": lambda m, s: m.every(
                "Server", "Attempt", lambda x, a: Implies(
                    backed(m, s, x, a),
                    Or(And(s.held(x, a), s.set_at(x, a) + m.worth(a) >= s.until(x, a)),
                       s.votes_from(x) >= s.until(x, a)))),
            "a server's good word is for one owner, or for readers": lambda m, s: m.every(
                "Server", "Attempt", "Attempt", lambda x, a, b: Implies(
                    And(backed(m, s, x, a), backed(m, s, x, b)), compatible(m, a, b))),
            "a quorum's words cover the deadline": lambda m, s: m.every(
                "Server", "Attempt", lambda x, a: Implies(
                    And(s.holds(a), m.member(x, s.won_by(a))), s.deadline(a) <= s.until(x, a))),
            "a holder has asked, and a writer holds by a quorum for writing": lambda m, s: m.every(
                "Attempt", lambda a: Implies(
                    s.holds(a), And(s.asked(a), Or(m.reads(a), m.for_writing(s.won_by(a)))))),
        },
        safety={
            "one holder at a time, or readers": lambda m, s: m.every(
                "Attempt", "Attempt",
                lambda a, b: Implies(And(valid(s, a), valid(s, b)), compatible(m, a, b))),
        },
        size={"Server": 3, "Attempt": 2, "Quorum": 3},
        small=majorities(forgetful=rule == "one loss too many") | {"readers": one_reads(rule)},
    )


def one_reads(rule):
    """In the small all write, but for one where readers are what is weakened."""
    is_reader = rule == "a reader ignores writers"
    return lambda m: And([
        m.reads(a) == (is_reader and number == 0) for number, a in enumerate(m.members["Attempt"])
    ])


# Each weakening, and after how many steps a run of three servers and two attempts shows the breach.
# Breaches that need more than nine are shown by src/policy/model.
WEAKENINGS = {
    "validity counts from the reply": None,
    "validity without drift": None,
    "one server is enough": 6,
    "a lost lease is extended": 8,
    "the predecessor goes on": 8,
    "a release deletes any lock": None,
    "no restart quarantine": 9,
    "short quarantine": None,
    "repair in quarantine": None,
    "one loss too many": 9,
    "a reader ignores writers": 8,
}
