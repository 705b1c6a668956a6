"""The fencing ballot (safety rule 8, `src/policy/fence.rs`, `scripts/acquire.lua`).

Claim. Tokens of one lock are unique, and a token that was issued before another attempt asked is the
smaller one. There is no time here and no lock: a lock is free whenever that helps the adversary.

An attempt is one proposal with one token; an attempt that proposes again is another attempt here. A server that
accepts it may set tokens aside with it, up to the last one: they are for those of the same process to which the lease
is passed on (`src/policy/relay.rs`). Servers that may forget do so at any time, to any value: a snapshot that is
restored is covered.
"""

from z3 import And, If, Implies, Not, Or

from quorums import majorities, writers_share
from system import BOOL, REAL, System, at, where


def fencing(rule=None):
    """The system; with a rule weakened, where one is named."""

    def ask(m, s, a):
        """An attempt asks: from here on, what was issued before has to be smaller than its token."""
        updates = {
            "asked": at(a, True),
            "before": where(lambda x, y: y == a, lambda x, y: s.issued(x)),
        }
        return Not(s.asked(a)), updates

    def accept(m, s, server, a):
        token, counter = m.token(a), s.counter(server)
        above = {"accepts equal": token >= counter, "accepts any": True}.get(rule, token > counter)
        raised = token if rule == "nothing set aside" else m.last(a)
        updates = {"accepted": at(server, a, True), "counter": at(server, raised)}
        if rule == "counter not raised":
            del updates["counter"]
        return And(s.asked(a), Not(s.accepted(server, a)), above), updates

    def issue(m, s, a, quorum):
        def counts(server):
            own = s.accepted(server, a)
            mixed = m.some("Attempt", lambda b: And(m.same_owner(a, b), s.accepted(server, b)))
            return Implies(m.member(server, quorum), mixed if rule == "mixed proposals" else own)

        guard = And(Not(s.issued(a)), s.asked(a), m.every("Server", counts))
        return guard, {"issued": at(a, True), "won_by": at(a, quorum)}

    def repair(m, s, server, a):
        """Sets the lock of an issued token where it is gone; the counter is raised, if need be."""
        counter, token = s.counter(server), m.last(a)
        lowers = rule == "repair lowers"
        updates = {"counter": at(server, token if lowers else If(token > counter, token, counter))}
        if rule == "repair accepts":
            updates["accepted"] = at(server, a, True)
            return s.asked(a), updates
        return s.issued(a), updates

    def forget(m, s, server, left):
        return m.forgetful(server), {"counter": at(server, left)}

    def apart(m, a, b):
        """No token of the one is a token of the other."""
        return Or(m.last(a) < m.token(b), m.last(b) < m.token(a))

    def kept(m, s, server, a, then):
        return Implies(And(s.accepted(server, a), Not(m.forgetful(server))), then)

    return System(
        name="fencing ballot",
        sorts=["Server", "Attempt", "Quorum"],
        rigid={
            "token": (["Attempt"], REAL),
            "last": (["Attempt"], REAL),
            "member": (["Server", "Quorum"], BOOL),
            "common": (["Quorum", "Quorum"], "Server"),
            "for_writing": (["Quorum"], BOOL),
            "forgetful": (["Server"], BOOL),
            "same_owner": (["Attempt", "Attempt"], BOOL),
        },
        state={
            "counter": (["Server"], REAL),
            "asked": (["Attempt"], BOOL),
            "accepted": (["Server", "Attempt"], BOOL),
            "issued": (["Attempt"], BOOL),
            "won_by": (["Attempt"], "Quorum"),
            "before": (["Attempt", "Attempt"], BOOL),
        },
        axioms={
            "two quorums share a server that remembers": writers_share(may_forget=rule == "one loss too many"),
            "each quorum is for writing": lambda m: m.every("Quorum", m.for_writing),
            "tokens are above 0": lambda m: m.every("Attempt", lambda a: m.token(a) > 0),
            "what is set aside is above the token": lambda m: m.every(
                "Attempt", lambda a: m.last(a) >= m.token(a)),
        },
        start={
            "nothing was asked": lambda m, s: m.every(
                "Attempt", lambda a: And(Not(s.asked(a)), Not(s.issued(a)))),
            "nothing was accepted": lambda m, s: m.every(
                "Server", "Attempt", lambda x, a: Not(s.accepted(x, a))),
            "nothing was before": lambda m, s: m.every(
                "Attempt", "Attempt", lambda a, b: Not(s.before(a, b))),
            "counters are 0": lambda m, s: m.every("Server", lambda x: s.counter(x) == 0),
        },
        actions={
            "ask": (["Attempt"], ask),
            "accept": (["Server", "Attempt"], accept),
            "issue": (["Attempt", "Quorum"], issue),
            "repair": (["Server", "Attempt"], repair),
            "forget": (["Server", REAL], forget),
        },
        invariants={
            "only what was asked is accepted": lambda m, s: m.every(
                "Server", "Attempt", lambda x, a: Implies(s.accepted(x, a), s.asked(a))),
            "a counter is not below what it accepted": lambda m, s: m.every(
                "Server", "Attempt", lambda x, a: kept(m, s, x, a, s.counter(x) >= m.last(a))),
            "a server accepts each token once": lambda m, s: m.every(
                "Server", "Attempt", "Attempt", lambda x, a, b: kept(
                    m, s, x, a, Implies(And(s.accepted(x, b), a != b), apart(m, a, b)))),
            "a quorum accepted what is issued": lambda m, s: m.every(
                "Server", "Attempt", lambda x, a: Implies(
                    And(s.issued(a), m.member(x, s.won_by(a))), s.accepted(x, a))),
            "before means issued": lambda m, s: m.every(
                "Attempt", "Attempt", lambda a, b: Implies(s.before(a, b), s.issued(a))),
            "what came before was accepted with a smaller token": lambda m, s: m.every(
                "Server", "Attempt", "Attempt", lambda x, a, b: kept(
                    m, s, x, b, Implies(
                        And(s.before(a, b), m.member(x, s.won_by(a))), m.last(a) < m.token(b)))),
        },
        safety={
            "tokens are unique": lambda m, s: m.every(
                "Attempt", "Attempt", lambda a, b: Implies(
                    And(s.issued(a), s.issued(b), a != b), apart(m, a, b))),
            "tokens follow real time": lambda m, s: m.every(
                "Attempt", "Attempt", lambda a, b: Implies(
                    And(s.before(a, b), s.issued(b)), m.last(a) < m.token(b))),
        },
        size={"Server": 3, "Attempt": 3, "Quorum": 3},
        small=majorities(forgetful=rule == "one loss too many"),
    )


# Each weakening, and after how many steps a run of three servers and attempts shows the breach. The one
# that needs more than nine is shown by src/policy/model.
WEAKENINGS = {
    "accepts equal": 8,
    "accepts any": 8,
    "counter not raised": 8,
    "nothing set aside": 8,
    "mixed proposals": 6,
    "repair lowers": None,
    "repair accepts": 8,
    "one loss too many": 9,
}
