"""The adapter for redis-py's Lock, on one server."""

import sys
from importlib.metadata import version

import redis

client = redis.Redis.from_url(sys.argv[1], socket_timeout=5)
print("ready redis-py", version("redis"), flush=True)
held = None

for line in sys.stdin:
    verb, *words = line.split()
    try:
        if verb == "acquire":
            name, ttl = words
            held = client.lock(name, timeout=int(ttl) / 1000, blocking=False)
            answer = "granted" if held.acquire() else "refused it is held"
        elif verb == "held":
            # What a holder can see without a question to the server: nothing ends it.
            answer = "held" if held.local.token is not None else "lost"
        elif verb == "release":
            held.release()
            answer = "released"
    except redis.exceptions.LockNotOwnedError as error:
        answer = f"lost {error}"
    except redis.exceptions.RedisError as error:
        answer = f"refused {type(error).__name__}"
    print(answer, flush=True)
