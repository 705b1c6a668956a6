"""The pushed lease: hand-over by push to the head of a queue at one server (`src/policy/waiter.rs`).

Claim. The holder that a push tells of its grant may count its lease from the moment at which it sent the
last question that the server answered with "still waiting": two owners never hold the lock at once, and tokens
rise with the grants. Pushes and replies may be late or lost, in any order, on any connection.

A question (an enqueue, then heartbeats) carries the moment `sent` at which it left; the server answers it at
any later moment. "Still waiting" proves that the grant comes later than that moment (`anchor`); "yours" gives
the key a full TTL again, and proves the same (`confirmed`). The server keeps its memory and its clock, as
`exclusion` says of both; what it loses there, it loses here.
"""

from z3 import And, If, Implies, Not, Or

from system import BOOL, REAL, System, at, where


def push(rule=None):
    """The system; with a rule weakened, where one is named."""

    def tick(m, s, now):
        return now > s.now(), {"now": at(now)}

    def begin(m, s, a):
        return Not(s.begun(a)), {"begun": at(a, True), "begun_at": at(a, s.now())}

    def is_question(s, a, sent):
        return And(s.begun(a), s.begun_at(a) <= sent, sent <= s.now())

    def free(m, s):
        return m.every("Attempt", lambda b: Not(s.held(b)))

    def grant(s, a):
        """The key is the attempt's, and a token is minted in the same script."""
        minted = s.counter() + (0 if rule == "hand-over without minting" else 1)
        return {
            "held": at(a, True),
            "set_at": at(a, s.now()),
            "waits": at(a, False),
            "granted": at(a, True),
            "token": at(a, minted),
            "counter": at(minted),
        }

    def later(old, new):
        return If(new > old, new, old)

    def enqueue(m, s, a, sent):
        """The first question of an attempt, and the only one that puts it into the queue."""
        updates = {
            "queued": at(a, True), "waits": at(a, True), "anchor": at(a, later(s.anchor(a), sent)),
        }
        return And(is_question(s, a, sent), Not(s.queued(a))), updates

    def take(m, s, a, sent):
        """The head finds the lock free by a question of its own: its reply is the grant."""
        updates = grant(s, a) | {"confirmed": at(a, later(s.confirmed(a), sent))}
        return And(is_question(s, a, sent), s.waits(a), free(m, s)), updates

    def still_waiting(m, s, a, sent):
        counts = s.waits(a)
        if rule == "an unanswered question counts":
            counts = Or(counts, s.granted(a))
        return And(is_question(s, a, sent), counts), {"anchor": at(a, later(s.anchor(a), sent))}

    def requeue(m, s, a, sent):
        """A heartbeat that puts its entry into the queue again, where it is gone."""
        updates = {"waits": at(a, True), "anchor": at(a, later(s.anchor(a), sent))}
        allowed = rule == "a heartbeat queues again"
        return And(allowed, is_question(s, a, sent), s.queued(a), Not(s.held(a))), updates

    def yours(m, s, a, sent):
        updates = {"confirmed": at(a, later(s.confirmed(a), sent))}
        if rule != "yours without re-arming":
            updates["set_at"] = at(a, s.now())
        return And(is_question(s, a, sent), s.held(a)), updates

    def hand_over(m, s, a, b):
        """A release pops the head, and gives the lock and a token to it."""
        held = where(lambda x: x == a, lambda x: False)
        updates = grant(s, b)
        updates["held"] = lambda old: at(b, True)(held(old))
        return And(s.ended(a), s.held(a), s.waits(b), a != b), updates

    def release(m, s, a):
        return And(s.ended(a), s.held(a)), {"held": at(a, False)}

    def expire(m, s, a):
        return And(s.held(a), s.now() >= s.set_at(a) + m.worth(a)), {"held": at(a, False)}

    def leave(m, s, a):
        return s.ended(a), {"waits": at(a, False)}

    def end(m, s, a):
        return s.begun(a), {"ended": at(a, True)}

    def believe(m, s, a, deadline):
        """A client reads a push for its owner, or a reply to a question of its own."""
        base = later(s.anchor(a), s.confirmed(a))
        if rule == "validity counts from the push":
            base = s.now()
        told = s.granted(a) if rule != "a push without its owner" else m.some("Attempt", s.granted)
        good = And(s.begun(a), told, base > 0, deadline <= base + m.worth(a))
        alive = And(Not(s.ended(a)), s.now() < deadline)
        return And(good, alive), {"holds": at(a, True), "deadline": at(a, deadline)}

    def base(s, a):
        return later(s.anchor(a), s.confirmed(a))

    def valid(s, a):
        return And(s.holds(a), Not(s.ended(a)), s.now() < s.deadline(a))

    def each(body):
        return lambda m, s: m.every("Attempt", lambda a: body(m, s, a))

    def pair(body):
        return lambda m, s: m.every("Attempt", "Attempt", lambda a, b: body(m, s, a, b))

    return System(
        name="pushed lease",
        sorts=["Attempt"],
        rigid={"worth": (["Attempt"], REAL)},
        state={
            "now": ([], REAL),
            "counter": ([], REAL),
            "begun": (["Attempt"], BOOL),
            "begun_at": (["Attempt"], REAL),
            "queued": (["Attempt"], BOOL),
            "waits": (["Attempt"], BOOL),
            "granted": (["Attempt"], BOOL),
            "held": (["Attempt"], BOOL),
            "set_at": (["Attempt"], REAL),
            "anchor": (["Attempt"], REAL),
            "confirmed": (["Attempt"], REAL),
            "token": (["Attempt"], REAL),
            "holds": (["Attempt"], BOOL),
            "deadline": (["Attempt"], REAL),
            "ended": (["Attempt"], BOOL),
        },
        axioms={"TTLs": lambda m: m.every("Attempt", lambda a: m.worth(a) > 0)},
        start={
            "time begins": lambda m, s: And(s.now() == 0, s.counter() == 0),
            "nobody has begun": each(lambda m, s, a: And(
                Not(s.begun(a)), Not(s.queued(a)), Not(s.waits(a)), Not(s.granted(a)),
                Not(s.held(a)), Not(s.holds(a)), Not(s.ended(a)), s.anchor(a) == 0,
                s.confirmed(a) == 0, s.begun_at(a) == 0, s.token(a) == 0, s.set_at(a) == 0)),
        },
        actions={
            "tick": ([REAL], tick),
            "begin": (["Attempt"], begin),
            "enqueue": (["Attempt", REAL], enqueue),
            "take": (["Attempt", REAL], take),
            "still waiting": (["Attempt", REAL], still_waiting),
            "requeue": (["Attempt", REAL], requeue),
            "yours": (["Attempt", REAL], yours),
            "hand over": (["Attempt", "Attempt"], hand_over),
            "believe": (["Attempt", REAL], believe),
            "release": (["Attempt"], release),
            "expire": (["Attempt"], expire),
            "leave": (["Attempt"], leave),
            "end": (["Attempt"], end),
        },
        invariants={
            "time and counter have begun": lambda m, s: And(s.now() >= 0, s.counter() >= 0),
            "an owner is granted at most once": each(lambda m, s, a: And(
                Implies(s.waits(a), And(s.queued(a), Not(s.granted(a)))),
                Implies(s.granted(a), s.queued(a)),
                Implies(s.queued(a), s.begun(a)))),
            "only what is granted is held": each(
                lambda m, s, a: Implies(Or(s.held(a), s.holds(a)), s.granted(a))),
            "the lock has one holder": pair(
                lambda m, s, a, b: Implies(And(s.held(a), s.held(b)), a == b)),
            "what was answered was sent by now": each(
                lambda m, s, a: And(base(s, a) <= s.now(), Implies(s.confirmed(a) > 0, s.granted(a)))),
            "a key outlives what its owner may count": each(lambda m, s, a: Implies(
                And(s.granted(a), Not(s.ended(a)), s.now() < base(s, a) + m.worth(a)),
                And(s.held(a), s.set_at(a) >= base(s, a)))),
            "a deadline is counted from an answer": each(lambda m, s, a: Implies(
                s.holds(a), s.deadline(a) <= base(s, a) + m.worth(a))),
            "the counter is the last token": each(
                lambda m, s, a: And(s.token(a) <= s.counter(), Implies(s.granted(a), s.token(a) > 0))),
            "tokens differ": pair(lambda m, s, a, b: Implies(
                And(s.granted(a), s.granted(b), a != b), s.token(a) != s.token(b))),
        },
        safety={
            "one holder at a time": pair(
                lambda m, s, a, b: Implies(And(valid(s, a), valid(s, b)), a == b)),
            "tokens are unique": pair(lambda m, s, a, b: Implies(
                And(s.granted(a), s.granted(b), a != b), s.token(a) != s.token(b))),
        },
        size={"Attempt": 2},
        small={},
    )


# Each weakening, and after how many steps a run of two attempts shows the breach.
WEAKENINGS = {
    "validity counts from the push": 10,
    "an unanswered question counts": 11,
    "a heartbeat queues again": 11,
    "yours without re-arming": 11,
    "hand-over without minting": 7,
    "a push without its owner": 8,
}
