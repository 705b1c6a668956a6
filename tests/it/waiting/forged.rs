//! Forged pushes, which any user can send that may read a queue and publish.

use leasehold_testing::{Client, RedisServer, eventually, soon};
use tokio::sync::oneshot;

use super::{locker, scripts_run};

/// A user that may look at the queue of `a` and publish, and nothing else.
struct Forger(Client);

impl Forger {
    fn at(server: &RedisServer) -> Self {
        let rights = "resetchannels on >pw ~{a}:queue &leasehold:* +hget +publish";
        let words = ["ACL", "SETUSER", "forger"].into_iter().chain(rights.split(' '));
        assert_eq!(server.cli_text(&words.collect::<Vec<_>>()), "OK");
        let mut client = Client::connect(server.address(), None).unwrap();
        assert_eq!(client.text(&["AUTH", "forger", "pw"]), "OK");
        Self(client)
    }

    /// Tells the first in the queue that the lock is its.
    fn tells(&mut self, token: u64) {
        let first = self.0.text(&["HGET", "{a}:queue", "first"]);
        let entry = self.0.text(&["HGET", "{a}:queue", &first]);
        let [_, _, channel, owner] = entry.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{entry}");
        };
        let heard = self.0.text(&["PUBLISH", channel, &format!("{token} {owner}")]);
        assert_eq!(heard, "1");
    }
}

fn clock(server: &RedisServer) -> u64 {
    let time =
        "local time = redis.call('TIME') return string.format('%.0f', time[1] * 1000000 + time[2])";
    server.cli_text(&["EVAL", time, "0"]).parse().unwrap()
}

/// Each forged push had a waiter hold what another held, and its token would have locked the resource for ever.
#[tokio::test]
async fn a_push_that_no_server_sent_costs_a_question_and_one_that_it_sent_costs_none() {
    for is_reader in [false, true] {
        let server = RedisServer::start();
        let (holder, waiter) = (locker(&server).await, locker(&server).await);
        // From then on the server knows the script.
        holder.write("a").await.unwrap().release().await.unwrap();
        let held = soon("a lock", async { holder.write("a").await }).await.unwrap();
        let before = scripts_run(&server);
        let (told, mut granted) = oneshot::channel();
        let waiting = tokio::spawn(async move {
            if is_reader {
                let guard = waiter.read("a").await.unwrap();
                told.send(guard.fence()).unwrap();
                guard.release().await.unwrap();
            } else {
                let guard = waiter.write("a").await.unwrap();
                told.send(guard.fence()).unwrap();
                guard.release().await.unwrap();
            }
        });
        eventually("it waits", || server.cli_text(&["EXISTS", "{a}:queue"]) == "1").await;
        let mut forger = Forger::at(&server);
        let mut asked = scripts_run(&server);
        assert!(asked > before);
        let now = clock(&server);
        for token in [(1 << 53) - 1, 1_000_000, now + 3_600_000_000, now - 2 * 86_400_000_000] {
            forger.tells(token);
            asked += 1;
            eventually("it asks", || scripts_run(&server) == asked).await;
            assert!(granted.try_recv().is_err() && !held.is_lost(), "{token}");
        }
        let token = held.fence();
        held.release().await.unwrap();
        let theirs = soon("it is told", &mut granted).await.unwrap();
        assert!(theirs >= token && theirs.get() < now + 3_600_000_000, "{theirs}");
        soon("its end", waiting).await.unwrap();
        let more = scripts_run(&server) - asked;
        assert_eq!(more, 2, "the two releases; reader: {is_reader}");
    }
}
