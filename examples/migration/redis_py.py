"""Locks of redis-py, taken and given back as the lines of its input say.

acquire NAME MILLISECONDS (0: without a timeout), extend MILLISECONDS, release; each is answered by
one line.
"""

import sys

import redis
from redis.exceptions import LockError


def main():
    client = redis.Redis.from_url(sys.argv[1])
    held = None
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "acquire":
            name, milliseconds = words
            timeout = int(milliseconds) / 1000 or None
            lock = client.lock(name, timeout=timeout)
            is_granted = lock.acquire(blocking=False)
            held = lock if is_granted else held
            answer = "granted" if is_granted else "refused"
        elif verb == "extend":
            answer = attempt(lambda: held.extend(int(words[0]) / 1000, replace_ttl=True), "extended")
        elif verb == "release":
            answer = attempt(held.release, "released")
        else:
            answer = f"unknown: {verb}"
        print(answer, flush=True)


def attempt(act, answer):
    """Does it; an error says that the lock is another's by now, or nobody's."""
    try:
        act()
    except LockError:
        return "lost"
    return answer


main()
