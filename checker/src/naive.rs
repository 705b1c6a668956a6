//! The adapter for what tutorials warn of, which the checker has to find faulty, or it sees too little: a lock
//! that is released without a look at its owner, and shares whose ends are judged by the TTL of the caller.
//! Over several servers most of them have to agree, each by its own count.

use std::io::{BufRead, Result};

use leasehold_testing::Client;

/// KEYS the shares, the writer; ARGV the caller, the TTL in milliseconds, the limit or -1 without one.
const SHARES: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
    local limit = tonumber(ARGV[3])
    if redis.call('EXISTS', KEYS[2]) == 1 or limit >= 0 and redis.call('ZCARD', KEYS[1]) >= limit then
        return 0
    end
    return redis.call('ZADD', KEYS[1], now, ARGV[1])";
/// As above, for the writer.
const WRITES: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
    if redis.call('ZCARD', KEYS[1]) > 0 then
        return 0
    end
    return redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0";

/// Of all shares and of the writer, what is its caller's.
const RELEASES: &str = "
    redis.call('ZREM', KEYS[1], ARGV[1])
    return redis.call('GET', KEYS[2]) == ARGV[1] and redis.call('DEL', KEYS[2])";

struct Server<'a> {
    url: &'a str,
    client: Option<Client>,
}

pub(crate) fn serve(urls: &[&str]) {
    println!("ready naive (DEL without a look at the owner, shares that end by the caller's TTL)");
    let mut servers: Vec<Server<'_>> =
        urls.iter().map(|url| Server { url, client: None }).collect();
    let me = std::process::id().to_string();
    let mut held = String::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let name = words.get(1).copied().unwrap_or(&held);
        let (shares, writer) = (format!("{{{name}}}:shares"), format!("{{{name}}}:writer"));
        let script = |script, limit| ["EVAL", script, "2", &shares, &writer, &me, words[2], limit];
        let command = match words[..] {
            ["acquire", name, ttl] => vec!["SET", name, "me", "NX", "PX", ttl],
            ["read", ..] => script(SHARES, "-1").to_vec(),
            ["permit", _, _, limit] => script(SHARES, limit).to_vec(),
            ["write", ..] => script(WRITES, "-1").to_vec(),
            ["held"] => {
                println!("held");
                continue;
            }
            ["upgrade"] => {
                println!("refused it has none");
                continue;
            }
            ["release"] => {
                give_back(&mut servers, [name, &shares, &writer, &me]);
                println!("released");
                continue;
            }
            _ => panic!("what is {line:?}?"),
        };
        let replies = servers.iter_mut().filter_map(|server| server.call(&command).ok());
        let votes = replies.filter(|reply| reply.contains("OK") || reply.contains("(1)")).count();
        if 2 * votes > urls.len() {
            println!("granted");
        } else {
            if words[0] != "acquire" {
                give_back(&mut servers, ["", &shares, &writer, &me]);
            }
            println!("refused");
        }
        held = name.to_owned();
    }
}

fn give_back(servers: &mut [Server<'_>], [lock, shares, writer, me]: [&str; 4]) {
    for server in servers {
        let _ = server.call(&["EVAL", RELEASES, "2", shares, writer, me]);
        let _ = server.call(&["DEL", lock]);
    }
}

impl Server<'_> {
    /// Over a new connection, if the last one has failed.
    fn call(&mut self, words: &[&str]) -> Result<String> {
        let address = self.url.trim_start_matches("redis://").parse();
        if self.client.is_none() {
            self.client = Some(Client::connect(address.expect("an address and a port"), None)?);
        }
        let reply = self.client.as_mut().expect("it was set").try_call(words);
        if reply.is_err() {
            self.client = None;
        }
        reply.map(|reply| format!("{reply:?}"))
    }
}
