"""Quorum intersection: the arithmetic once, for every N; and the axiom that follows from it.

The proofs never count servers. They need one fact of q, N and k: two quorums share a server that remembers.
`arithmetic` shows it: by inclusion and exclusion, two sets A and B of N servers share at least |A| + |B| - N,
and at most k of those forget. Quorums for reading matter to reader-writer locks alone; an exclusive lock
only writes, with R = W = q.
"""

import z3


def shares(big, small, assumed):
    """Whether sets of `big` and `small` of n servers, of which k forget, always share one that remembers."""
    n, k, shared, kept = z3.Ints("n k shared kept")
    solver = z3.Solver()
    solver.add(n >= 1, big <= n, small <= n, k >= 0)
    solver.add(shared >= 0, shared >= big + small - n)
    solver.add(kept >= 0, kept >= shared - k)
    solver.add(assumed, kept < 1)
    return solver.check() == z3.unsat


def arithmetic():
    """The claims that do not hold; none."""
    q, n, k, r, w = z3.Ints("q n k r w")
    claims = {
        "two quorums, k = 2q - N - 1": shares(q, q, k == 2 * q - n - 1),
        "two writers, 2W > N + k": shares(w, w, 2 * w > n + k),
        "reader and writer, R + W > N + k": shares(r, w, r + w > n + k),
    }
    return [name for name, holds in claims.items() if not holds]


def weakened():
    """Each bound with one less: the ones that still hold; none."""
    q, n, k, r, w = z3.Ints("q n k r w")
    claims = {
        "k = 2q - N": shares(q, q, k == 2 * q - n),
        "2W = N + k": shares(w, w, 2 * w == n + k),
        "R + W = N + k": shares(r, w, r + w == n + k),
    }
    return [name for name, holds in claims.items() if holds]


def writers_share(may_forget=False):
    """Every quorum for writing shares a server that remembers with every quorum of either kind."""

    def shares(m, one, other):
        server = m.common(one, other)
        remembers = z3.Or(z3.Not(m.forgetful(server)), may_forget)
        share = z3.And(m.member(server, one), m.member(server, other), remembers)
        return z3.Implies(m.for_writing(one), share)

    return lambda m: m.every("Quorum", "Quorum", lambda one, other: shares(m, one, other))


def majorities(forgetful=False):
    """For runs in the small: three servers and their three majorities, each good for writing too."""

    def members(m):
        servers, quorums = m.members["Server"], m.members["Quorum"]
        return z3.And([
            m.member(server, quorum) == (i != j)
            for i, server in enumerate(servers) for j, quorum in enumerate(quorums)
        ])

    def forgets(m):
        servers = enumerate(m.members["Server"])
        return z3.And([m.forgetful(server) == (forgetful and i == 0) for i, server in servers])

    def writes(m):
        return z3.And([m.for_writing(quorum) for quorum in m.members["Quorum"]])

    return {"members": members, "forgetful": forgets, "for writing": writes}
