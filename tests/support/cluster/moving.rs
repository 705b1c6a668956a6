//! Slots that move from one node to another: key by key, as administrators' tools move them, or at once.

use std::time::Duration;

use super::super::binary;
use super::super::server::{ADMIN, has_least_rights};
use super::{Cluster, POLL};

/// Valkey has replicas acknowledge each moved slot before the next one.
const RESHARDED_WITHIN: Duration = Duration::from_secs(100);

impl Cluster {
    /// Moves `count` slots with redis-cli, as an administrator does.
    pub async fn migrate_slots(&self, from: usize, to: usize, count: usize) {
        let [source, target] = [from, to].map(|node| &self.nodes[node]);
        let mut command = tokio::process::Command::new("redis-cli");
        command
            .args(["--cluster", "reshard", &source.server.address().to_string()])
            .args(["--cluster-from", &source.id, "--cluster-to", &target.id])
            .args(["--cluster-slots", &count.to_string(), "--cluster-yes"])
            .args(
                has_least_rights()
                    .then_some(["--user", ADMIN, "--pass", ADMIN])
                    .into_iter()
                    .flatten(),
            )
            .kill_on_drop(true);
        let moved = async {
            loop {
                let output = command.output().await.expect("redis-cli can be started");
                let said = String::from_utf8_lossy(&output.stdout);
                if output.status.success() && !said.contains("[ERR]") {
                    break;
                }
                // No other refusal can pass by itself.
                assert!(said.contains("Nodes don't agree about configuration"), "{said}");
                tokio::time::sleep(POLL).await;
            }
        };
        let moved = tokio::time::timeout(RESHARDED_WITHIN, moved).await;
        moved.expect("slots move");
    }

    /// Makes `from` reply ASK for keys that it lacks, and `to` accept commands after ASKING.
    pub fn begin_migration(&self, slot: u16, from: usize, to: usize) {
        let [source, target] = [from, to].map(|node| &self.nodes[node]);
        let slot = slot.to_string();
        target.ok(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source.id]);
        source.ok(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target.id]);
    }

    /// Moves the slot's keys; returns how many.
    pub fn migrate_keys(&self, slot: u16, from: usize, to: usize) -> usize {
        let slot = slot.to_string();
        let mut client = self[from].client();
        let mut moved = 0;
        loop {
            let leasehold_resp::Frame::Array(keys) =
                client.call(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"])
            else {
                panic!("no list of keys");
            };
            let Some(key) = keys.first().and_then(leasehold_resp::Frame::as_bytes) else {
                return moved;
            };
            let key = std::str::from_utf8(key).expect("tests have readable keys");
            moved += usize::from(self.migrate_key(key, from, to));
        }
    }

    /// Moves one key; returns whether it existed.
    pub fn migrate_key(&self, key: &str, from: usize, to: usize) -> bool {
        let port = self[to].port().to_string();
        let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
        if has_least_rights() {
            migrate.extend(["AUTH2", ADMIN, ADMIN]);
        }
        let answer = self[from].client().text(&migrate);
        // The key may have expired meanwhile.
        assert!(answer == "OK" || answer == "NOKEY", "{answer}");
        answer == "OK"
    }

    /// Makes `to` the slot's master, at all masters.
    pub fn end_migration(&self, slot: u16, from: usize, to: usize) {
        let id = &self.nodes[to].id;
        let others = (0..self.nodes.len()).filter(|other| ![from, to].contains(other));
        for node in [to, from].into_iter().chain(others).map(|node| &self.nodes[node]) {
            if node.answers && node.myself().is("master") {
                node.ok(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", id]);
            }
        }
    }

    /// Moves the slot by the servers' own command of Redis 8.4 and Valkey 9: its keys are copied as to a replica, and
    /// then the slot changes its master at once.
    pub async fn migrate_atomically(&self, slot: u16, from: usize, to: usize) {
        let slot_text = slot.to_string();
        let (asked, command) = if binary::is_redis() {
            (to, vec!["CLUSTER", "MIGRATION", "IMPORT", &slot_text, &slot_text])
        } else {
            let range = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &slot_text, &slot_text, "NODE"];
            (from, range.into_iter().chain([self.id(to)]).collect())
        };
        let answer = self[asked].cli(&command);
        assert!(answer.error().is_none(), "{command:?}: {answer:?}");
        self.wait_until("the slot changes hands", || self.find_master(slot) == Some(to)).await;
    }
}
