//! The server's cost of shares of a lock: the script alone, with few members and many.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::BytesMut;
use leasehold_resp::{Decoder, Frame, Limits, encode_command};

use super::cost::cpu_seconds;
use super::report::{Cell, Report};
use super::statistics::Samples;
use super::wire::{STAMP, without_comments};
use crate::support::RedisServer;

const ROUNDS: usize = 9;
const MEMBERS: [usize; 4] = [0, 10, 1_000, 10_000];
const KEYS: [&str; 4] = ["name", "{name}:fence", "{name}:queue", "{name}:shares"];
const PLAIN: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
/// Of the leases that come and go, and of the members, which outlast all rounds.
const TTL_MS: [&str; 2] = ["10000", "3600000"];

/// Of what is measured: its name, and the limit of its shares; none for a plain lock.
const KINDS: [(&str, Option<&str>); 3] =
    [("plain", None), ("reader", Some("0")), ("permit", Some("1000000"))];

struct Crowd {
    stream: TcpStream,
    process: u32,
    plain: String,
    share: String,
    owners: u64,
}

/// With this many pairs of each kind in each round.
pub fn run(pairs: usize) -> Report {
    let server = RedisServer::start();
    let mut client = server.client();
    let mut load = |source: &str| client.text(&["SCRIPT", "LOAD", &without_comments(source)]);
    let mut crowd = Crowd {
        stream: TcpStream::connect(server.address()).expect("the server is up"),
        process: server.pid(),
        plain: load(PLAIN),
        share: load(include_str!("../../scripts/share.lua")),
        owners: 0,
    };
    let wanted: Vec<_> = KINDS
        .into_iter()
        .flat_map(|kind| MEMBERS.map(|members| (kind, members)))
        .filter(|((_, limit), members)| limit.is_some() || *members == 0)
        .collect();
    let mut samples = vec![Samples::default(); wanted.len()];
    for _ in 0..ROUNDS {
        for (((_, limit), members), samples) in wanted.iter().zip(&mut samples) {
            client.call(&["FLUSHALL"]);
            crowd.enter(*limit, *members);
            samples.push(crowd.pairs(*limit, pairs));
        }
    }
    let rows = wanted.iter().zip(&samples).map(|(((name, _), members), its)| {
        vec![
            Cell::text(*name),
            Cell::Number(*members as f64, 0),
            Cell::spread(its, 2),
            Cell::spread(&its.over(&samples[0]), 2),
        ]
    });
    Report {
        scenario: "shares",
        notes: vec![
            format!("The server's CPU to acquire and release, in microseconds: {pairs} pairs in each of"),
            format!("{ROUNDS} rounds, all sent without waiting for replies, beside members that stay; median"),
            "(10th to 90th percentile), ratios round by round. Plain: SET NX PX and a script that compares".into(),
            "and deletes. One at a time, a server spends most of its CPU on the system calls of each command.".into(),
        ],
        columns: vec!["lease", "members", "CPU, µs a pair", "over plain"],
        rows: rows.collect(),
    }
}

impl Crowd {
    /// Members that stay.
    fn enter(&mut self, limit: Option<&str>, members: usize) {
        let Some(limit) = limit else { return };
        let mut out = BytesMut::new();
        for _ in 0..members {
            let owner = self.owner();
            self.take(&mut out, &owner, TTL_MS[1], limit);
        }
        self.send(&out, members);
    }

    /// The server's microseconds a pair.
    fn pairs(&mut self, limit: Option<&str>, pairs: usize) -> f64 {
        let mut out = BytesMut::new();
        for _ in 0..pairs {
            let owner = self.owner();
            match limit {
                Some(limit) => {
                    self.take(&mut out, &owner, TTL_MS[0], limit);
                    self.script(&mut out, &self.share, &KEYS, &[&owner, "", STAMP]);
                }
                None => {
                    let words = ["SET", KEYS[0], &owner, "NX", "PX", TTL_MS[0]];
                    encode_command(&mut out, &words.map(str::as_bytes));
                    self.script(&mut out, &self.plain, &KEYS[..1], &[&owner]);
                }
            }
        }
        let before = cpu_seconds(self.process);
        self.send(&out, 2 * pairs);
        (cpu_seconds(self.process) - before) * 1e6 / pairs as f64
    }

    fn owner(&mut self) -> String {
        self.owners += 1;
        format!("{:032x}:", self.owners)
    }

    fn take(&self, out: &mut BytesMut, owner: &str, ttl: &str, limit: &str) {
        self.script(out, &self.share, &KEYS, &[owner, "take", ttl, limit, "1", STAMP]);
    }

    fn script(&self, out: &mut BytesMut, digest: &str, keys: &[&str], arguments: &[&str]) {
        let count = keys.len().to_string();
        let words = [&["EVALSHA", digest, &count], keys, arguments].concat();
        let words: Vec<_> = words.into_iter().map(str::as_bytes).collect();
        encode_command(out, &words);
    }

    /// Sends it all, and reads as many replies, of which each says yes.
    fn send(&self, out: &[u8], replies: usize) {
        std::thread::scope(|scope| {
            scope.spawn(|| (&self.stream).write_all(out).expect("the server reads"));
            let mut decoder = Decoder::new(Limits::default());
            let (mut received, mut chunk, mut heard) = (BytesMut::new(), [0; 64 * 1024], 0);
            while heard < replies {
                let read = (&self.stream).read(&mut chunk).expect("the server answers");
                assert_ne!(read, 0, "the server hung up");
                received.extend_from_slice(&chunk[..read]);
                while let Some(reply) = decoder.decode(&mut received).expect("it is a reply") {
                    assert!(is_yes(&reply), "{reply:?}");
                    heard += 1;
                }
            }
        });
    }
}

fn is_yes(reply: &Frame) -> bool {
    match reply {
        Frame::Simple(_) | Frame::Bulk(_) | Frame::Integer(1) => true,
        Frame::Array(items) => matches!(&items[1], Frame::Bulk(word) if word == "granted"),
        _ => false,
    }
}
