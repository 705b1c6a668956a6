#!/usr/bin/env python3
"""Draws docs/pictures/*.svg from the descriptions below, with Python alone.

    scripts/pictures.py           draws them
    scripts/pictures.py --check   says which differ from their description, and fails then

Each picture is readable on light and dark pages. As an image it follows the reader's colour scheme; inside
a page, as in the crate's documentation, it takes the page's text colour. No line may be blank: in Markdown
that would end the picture.
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the tree stays as it is

from svg import BLUE, GREEN, GREY, RED, Picture  # noqa: E402

DIRECTORY = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def lease():
    """Two clocks: the client's deadline comes before the server's expiry, whatever replies do."""
    it = Picture("A lease: the client counts from before it asked, so it stops before the key expires", 760, 330)
    sent, set_, granted, renewal, deadline, expiry = 90, 125, 160, 300, 560, 655
    client, server = 70, 150
    it.text(80, client + 20, "client", "end")
    it.text(80, server + 20, "server", "end")
    it.bar(granted, client, deadline - granted, 32, GREEN, "lease is valid for its holder")
    it.bar(set_, server, expiry - set_, 32, BLUE, "key exists: no other client is granted the lock")
    it.arrow(sent, client + 32, set_, server, GREY)
    it.arrow(set_, server, granted, client + 32, GREY)
    it.text(sent, client - 30, "T1: acquire sent", "start")
    it.line(sent, client - 24, sent, client + 32, GREY, True)
    it.arrow(renewal, client + 32, renewal + 35, server, GREY)
    it.text(renewal, client - 10, "TTL/3: renewal moves both ends on")
    it.line(deadline, client - 6, deadline, server + 54, RED, True)
    it.text(deadline, client - 12, "deadline = T1 + TTL - drift", colour=RED)
    it.line(expiry, server, expiry, server + 54, BLUE, True)
    it.text(expiry, server + 70, "key expires", colour=BLUE)
    it.text(deadline - 6, server + 52, "lost() resolves here", "end", RED)
    it.text(deadline - 6, server + 70, "at the latest, without a reply", "end", RED)
    y = 270
    boxes = [(60, "acquiring"), (230, "held"), (400, "releasing"), (570, "released")]
    for x, words in boxes:
        it.bar(x, y, 110, 34, GREEN if words == "held" else GREY, words)
    for x, _ in boxes[:-1]:
        it.arrow(x + 112, y + 17, x + 168, y + 17)
    it.text(285, y + 52, "or lost: expired, gone, no quorum, suspended, shut down, held longest", colour=RED)
    return it


def quorum():
    """Two leases on five servers, with the default quorum and a larger one."""
    it = Picture("Two quorums of five servers: how many they share decides how many may forget", 760, 330)
    for top, needed in [(20, 3), (180, 4)]:
        shared = 2 * needed - 5
        first, last = range(needed), range(5 - needed, 5)
        for server in range(5):
            both = server in first and server in last
            it.circle(200 + 85 * server, top + 70, 26, RED if both else GREY, f"s{server + 1}")
        it.bar(165, top + 26, 85 * (needed - 1) + 70, 88, GREEN, dashed=True)
        it.bar(165 + 85 * (5 - needed), top + 18, 85 * (needed - 1) + 70, 104, BLUE, dashed=True)
        it.text(20, top + 64, "N = 5", "start")
        it.text(20, top + 84, f"q = {needed}", "start")
        it.text(165, top + 16, "grants of lease A", "start", GREEN, 12)
        it.text(575, top + 12, "grants of lease B", "end", BLUE, 12)
        it.text(610, top + 54, f"2q - N = {shared} shared", "start", RED)
        it.text(610, top + 76, f"k = {shared - 1} may forget", "start")
        it.text(610, top + 98, f"f = {5 - needed} may be down", "start")
    it.text(380, 322, "While one shared server remembers lease A, lease B cannot be granted.")
    return it


# Sender, receiver, what is said, and whether it is a push or reply. Change this list with the mechanism.
HAND_OVER = [
    ("waiter 1", "line", "joins the line: no command", True),
    ("waiter 2", "line", "joins the line: no command", True),
    ("other", "server", "enters the queue", False),
    ("holder", "waiter 1", "the lease as it stands, and the next token", True),
    ("waiter 1", "waiter 2", "the lease as it stands, and the next token", True),
    ("waiter 2", "server", "release: nobody is in line", False),
    ("server", "other", "push: granted, with its token", True),
]


def hand_over():
    it = Picture("Hand-over: within a process without the server, between processes by a push", 760, 344)
    places = {"holder": 70, "waiter 1": 190, "waiter 2": 310, "line": 250, "server": 520, "other": 690}
    names = {"other": "other process"}
    for name, x in places.items():
        if name != "line":
            it.bar(x - 52, 34, 104, 30, BLUE if name == "server" else GREY, names.get(name, name))
            it.line(x, 64, x, 334, GREY, True)
    it.text(190, 22, "one process", colour=GREY)
    it.line(18, 28, 362, 28)
    y = 92
    for sender, receiver, words, is_light in HAND_OVER:
        x1, x2 = places[sender], places[receiver]
        if receiver == "line":
            it.text(x1 + 8, y + 4, words, "start", GREY, 12)
        else:
            it.arrow(x1, y, x2, y, BLUE if is_light else "currentColor", is_light)
            it.text((x1 + x2) / 2, y - 5, words, size=12)
        y += 38
    return it


# What is said of each half: whether there is a grace, what comes of A's lease, and of B's request.
FAILOVERS = [
    (False, [(150, 500, GREEN, "A holds, and has not heard")], [(430, 700, RED, "B is granted it, too")]),
    (True, [(150, 590, GREEN, "A holds, and says so to the successor")], [(430, 596, GREY, "B waits"), (596, 700, GREEN, "B holds")]),
]


def failover():
    """One lease that the promoted replica has not heard of, without a grace and with one."""
    it = Picture("A failover to a replica that has not heard of a lease, without a grace and with one", 760, 400)
    fails, promoted, over = 300, 360, 560
    for top, (has_grace, of_a, of_b) in zip([10, 205], FAILOVERS):
        it.text(20, top + 14, "with a grace" if has_grace else "without a grace", "start")
        it.bar(110, top + 28, fails - 110, 28, BLUE, "primary")
        it.bar(promoted, top + 28, 740 - promoted, 28, BLUE, "its successor, without the lease")
        it.line(fails, top + 22, fails, top + 150, RED, True)
        it.line(promoted, top + 22, promoted, top + 150, GREY, True)
        for name, y, bars in [("A", top + 76, of_a), ("B", top + 116, of_b)]:
            it.text(100, y + 19, name, "end")
            for start, end, colour, words in bars:
                it.bar(start, y, end - start, 28, colour, words, colour == GREY)
        if has_grace:
            it.arrow(promoted + 12, top + 76, promoted + 12, top + 56, GREEN)
            it.line(over, top + 22, over, top + 150, GREY, True)
            it.text((promoted + over) / 2, top + 166, "grace: the longest TTL", colour=GREY)
            it.text(over + 6, top + 166, "free names are granted again", "start", GREY, 12)
        else:
            it.text(promoted, top + 166, "names that A holds are free", "start", RED, 12)
        it.text(fails, top + 14, "fails", colour=RED)
        it.text(promoted, top + 14, "promoted", "start", GREY)
    return it


PICTURES = {"lease": lease, "quorum": quorum, "hand-over": hand_over, "failover": failover}


def main(arguments):
    stale = []
    for name, draw in PICTURES.items():
        path = DIRECTORY / f"{name}.svg"
        fresh = draw().svg()
        if arguments == ["--check"]:
            if not path.exists() or path.read_text() != fresh:
                stale.append(path.name)
        else:
            path.write_text(fresh)
    if stale:
        print("not as described: " + ", ".join(stale) + " (run scripts/pictures.py)", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
