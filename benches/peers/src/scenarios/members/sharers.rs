//! Each way to take a share.

use std::mem::forget;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use distkit::DistkitRedisKey;
use distkit::lock::{LockOptions, RwLock};
use distributed_lock_core::traits::{
    DistributedReaderWriterLock, DistributedSemaphore, LockHandle, ReaderWriterLockProvider,
    SemaphoreProvider,
};
use distributed_lock_redis::RedisLockProvider;
use leasehold::Locker;
use leasehold::limits::Rate;
use redis::Script;
use redis::aio::MultiplexedConnection;

use super::family;
use super::node::Node;
use super::sharer::{COUNTER, Sharer, Way, owner, sharer};

/// Of permits in a semaphore, and of tokens in a limit.
const LIMIT: u32 = 1_000_000;
pub const LIMIT_TEXT: &str = "1000000";
/// Of what comes and goes, and of what stays for longer than all rounds.
const TTL: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(3600);

fn ttl(stays: bool) -> Duration {
    if stays { LONG } else { TTL }
}

/// The plain lock first.
pub async fn all(url: &str) -> Vec<Sharer> {
    let client = redis::Client::open(url).expect("it is a URL");
    // A script that goes through all members takes a while for each of the tasks.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(LONG));
    let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
    let connection = connection.expect("the server is up");
    let mut all = vec![plain(connection.clone())];
    let locker = Locker::connect(url).await.expect("the server is up");
    all.extend(family::ours(&locker));
    all.extend(ours(locker));
    all.extend(redissons(&connection));
    all.push(family::redissons_latch(&connection));
    let manager = client.get_connection_manager().await.expect("the server is up");
    for is_reader in [true, false] {
        let manager = manager.clone();
        let what = if is_reader { "reader" } else { "writer" };
        all.push(sharer(what, "distkit", is_reader, move |stays| {
            distkits(manager.clone(), is_reader, stays)
        }));
    }
    all.extend(distributed_locks(url).await);
    if let Some(node) = Node::start(url) {
        let (what, library) = ("permit", "redis-semaphore (npm)");
        all.push(Sharer { what, library, has_members: true, way: Way::Node(node) });
    }
    // What is one thing stands together.
    let order = [
        "plain lock",
        "reader",
        "writer",
        "permit",
        "limit",
        "election",
        "once",
        "idempotent, first",
        "idempotent, again",
        "latch",
        "barrier",
    ];
    all.sort_by_key(|sharer| order.iter().position(|what| *what == sharer.what));
    all
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("it is short")
}

/// 64 locks, because each is one task's.
fn plain(connection: MultiplexedConnection) -> Sharer {
    let gives = Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
    );
    sharer("plain lock", "redis-rs", false, move |_| {
        let (mut connection, gives) = (connection.clone(), gives.clone());
        async move {
            let owner = owner();
            let mut set = redis::cmd("SET");
            set.arg(&owner).arg(&owner).arg("NX").arg("PX").arg(millis(TTL));
            let taken: String = set.query_async(&mut connection).await.expect("it is free");
            assert_eq!(taken, "OK");
            let given = gives.key(&owner).arg(&owner).invoke_async(&mut connection).await;
            assert_eq!(given, Ok(1));
        }
    })
}

fn ours(locker: Locker) -> Vec<Sharer> {
    const WHO: &str = "Leasehold";
    let permits = locker.semaphore("name", LIMIT);
    let limit = locker.limit("name", Rate::new(LIMIT, LONG));
    let readers = locker.clone();
    let kept = async |request: leasehold::LockRequest, stays| {
        let guard = request.ttl(ttl(stays)).no_renewal().await.expect("there is room");
        if stays { forget(guard) } else { guard.release().await.expect("it is held") }
    };
    vec![
        sharer("reader", WHO, true, move |stays| kept(readers.try_read("name"), stays)),
        sharer("writer", WHO, false, move |stays| kept(locker.try_write(owner()), stays)),
        sharer("permit", WHO, true, move |stays| kept(permits.try_acquire(1), stays)),
        sharer("limit", WHO, true, move |_| {
            let limit = limit.clone();
            async move { assert!(limit.take(1).await.expect("it answers").is_allowed()) }
        }),
    ]
}

async fn distkits(manager: redis::aio::ConnectionManager, is_reader: bool, stays: bool) {
    let name = if is_reader { "name".to_owned() } else { owner().replace(':', "-") };
    let key = DistkitRedisKey::try_from(name).expect("it is a name");
    let lock = RwLock::new(LockOptions::builder(key, manager).ttl(ttl(stays)).build());
    if !is_reader {
        lock.try_write().await.expect("it is free").release().await.expect("it is held");
        return;
    }
    let guard = lock.try_read().await.expect("there is room");
    if stays {
        forget(guard);
    } else {
        guard.release().await.expect("it is held");
    }
}

async fn distributed_locks(url: &str) -> Vec<Sharer> {
    const WHO: &str = "distributed-lock-redis";
    let provider = async |time| {
        let provider = RedisLockProvider::builder().url(url).expiry(time).min_validity(time / 100);
        Arc::new(provider.extension_cadence(time / 3).build().await.expect("the server is up"))
    };
    let providers = [provider(TTL).await, provider(LONG).await];
    let of = move |stays| Arc::clone(&providers[usize::from(stays)]);
    let (writes, permits) = (of.clone(), of.clone());
    vec![
        sharer("reader", WHO, true, move |stays| {
            let lock = of(stays).create_reader_writer_lock("name");
            async move {
                // It gives up by itself where an answer takes long.
                let handle = loop {
                    if let Some(handle) = lock.try_acquire_read().await.expect("it answers") {
                        break handle;
                    }
                };
                if stays { forget(handle) } else { handle.release().await.expect("it is held") }
            }
        }),
        sharer("writer", WHO, false, move |stays| {
            let lock = writes(stays).create_reader_writer_lock(&owner());
            async move {
                let handle = loop {
                    if let Some(handle) = lock.try_acquire_write().await.expect("it answers") {
                        break handle;
                    }
                };
                handle.release().await.expect("it is held");
            }
        }),
        sharer("permit", WHO, true, move |stays| {
            let permits = permits(stays).create_semaphore("name", LIMIT);
            async move {
                let handle = permits.try_acquire().await.expect("it answers");
                let handle = handle.expect("there is room");
                if stays { forget(handle) } else { handle.release().await.expect("it is held") }
            }
        }),
    ]
}

/// A hash of holders with its mode, and a key for each hold of a reader.
const READ_TAKES: &str = "
    local mode = redis.call('HGET', KEYS[1], 'mode')
    if mode and mode ~= 'read' then return 0 end
    if not mode then redis.call('HSET', KEYS[1], 'mode', 'read') end
    local hold = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
    redis.call('SET', KEYS[1] .. ':' .. ARGV[1] .. ':' .. hold, 1, 'PX', ARGV[2])
    local lasts = math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))
    redis.call('PEXPIRE', KEYS[1], lasts)
    return 1";
/// The hash lasts as long as the longest of all holds that are left.
const READ_GIVES: &str = "
    local hold = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
    if hold == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end
    redis.call('DEL', KEYS[1] .. ':' .. ARGV[1] .. ':' .. hold + 1)
    if redis.call('HLEN', KEYS[1]) > 1 then
        local lasts = 0
        for _, holder in ipairs(redis.call('HKEYS', KEYS[1])) do
            local holds = tonumber(redis.call('HGET', KEYS[1], holder))
            for number = 1, holds or 0 do
                local left = redis.call('PTTL', KEYS[1] .. ':' .. holder .. ':' .. number)
                lasts = math.max(lasts, left)
            end
        end
        if lasts > 0 then redis.call('PEXPIRE', KEYS[1], lasts) return 1 end
    end
    redis.call('DEL', KEYS[1])
    redis.call('PUBLISH', KEYS[2], 0)
    return 1";
const WRITE_TAKES: &str = "
    if redis.call('HGET', KEYS[1], 'mode') then return 0 end
    redis.call('HSET', KEYS[1], 'mode', 'write')
    redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 1";
const WRITE_GIVES: &str = "
    if redis.call('HGET', KEYS[1], 'mode') ~= 'write' then return 0 end
    if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) == 0 then
        redis.call('HDEL', KEYS[1], ARGV[1])
        if redis.call('HLEN', KEYS[1]) == 1 then
            redis.call('DEL', KEYS[1])
            redis.call('PUBLISH', KEYS[2], 0)
        end
    end
    return 1";
/// A counter of free permits, and when each that is taken ends, by the caller's clock.
const PERMIT_TAKES: &str = "
    local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[3], 'LIMIT', 0, 100)
    for _, permit in ipairs(over) do
        redis.call('ZREM', KEYS[2], permit)
        redis.call('INCR', KEYS[1])
    end
    if tonumber(redis.call('GET', KEYS[1]) or 0) < 1 then return 0 end
    redis.call('DECR', KEYS[1])
    redis.call('ZADD', KEYS[2], ARGV[3] + ARGV[2], ARGV[1])
    return 1";
const PERMIT_GIVES: &str = "
    if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return 0 end
    redis.call('PUBLISH', KEYS[3], redis.call('INCR', KEYS[1]))
    return 1";
/// A rate and its period, what is left, and an entry for each token that was taken in the period.
const LIMIT_TAKES: &str = "
    local rate, period = unpack(redis.call('HMGET', KEYS[1], 'rate', 'interval'))
    if not rate then
        rate, period = ARGV[4], ARGV[2]
        redis.call('HSET', KEYS[1], 'rate', rate, 'interval', period)
    end
    local left = redis.call('GET', KEYS[2])
    if left then
        local over = redis.call('ZRANGEBYSCORE', KEYS[3], 0, ARGV[3] - period)
        if #over > 0 then
            redis.call('ZREMRANGEBYSCORE', KEYS[3], 0, ARGV[3] - period)
            redis.call('INCRBY', KEYS[2], #over)
        end
    else
        redis.call('SET', KEYS[2], rate)
    end
    if tonumber(left or rate) < 1 then return 0 end
    redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
    redis.call('DECR', KEYS[2])
    return 1";

fn redissons(connection: &MultiplexedConnection) -> Vec<Sharer> {
    let read = [READ_TAKES, READ_GIVES];
    let write = [WRITE_TAKES, WRITE_GIVES];
    let permit = [PERMIT_TAKES, PERMIT_GIVES];
    vec![
        redisson(connection, "reader", true, &read, &["name", "{name}:channel"]),
        redisson(connection, "writer", false, &write, &["", "{name}:channel"]),
        redisson(connection, "permit", true, &permit, &[COUNTER, "{name}:ends", "{name}:channel"]),
        redisson(
            connection,
            "limit",
            true,
            &[LIMIT_TAKES],
            &["name", "{name}:left", "{name}:taken"],
        ),
    ]
}

/// By a script that takes, and one that gives back if there is one. A key without a name is the owner's own.
fn redisson(
    connection: &MultiplexedConnection,
    what: &'static str,
    has_members: bool,
    scripts: &[&str],
    keys: &'static [&'static str],
) -> Sharer {
    let scripts: Arc<[Script]> = scripts.iter().map(|text| Script::new(text)).collect();
    let connection = connection.clone();
    sharer(what, "Redisson's structure", has_members, move |stays| {
        let (mut connection, scripts) = (connection.clone(), Arc::clone(&scripts));
        async move {
            let owner = owner();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
            // All entries of a limit are of one period.
            let lasts = if what == "limit" { LONG } else { ttl(stays) };
            let times = if stays { 1 } else { scripts.len() };
            for script in &scripts[..times] {
                let mut call = script.prepare_invoke();
                for key in keys {
                    call.key(if key.is_empty() { &owner } else { *key });
                }
                call.arg(&owner).arg(millis(lasts)).arg(millis(now)).arg(LIMIT);
                assert_eq!(call.invoke_async(&mut connection).await, Ok(1), "{what}");
            }
        }
    })
}
