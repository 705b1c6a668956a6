//! Leases that are held for long, and renewal that ends with them.

use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locker, Loss};
use leasehold_resp::Frame;

use super::{LONG, SHORT, pttl, quorum, take, until_renewed};
use leasehold_testing::{Client, Fleet, RedisServer, eventually, soon};

/// How many scripts the server was asked to run, a guard's queued release included.
fn scripts_run(server: &RedisServer) -> u64 {
    let info = server.cli_text(&["INFO", "commandstats"]);
    let calls = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        let calls = line.and_then(|line| line.split(',').next());
        calls.map_or(0, |calls| calls.parse::<u64>().unwrap())
    };
    calls("cmdstat_evalsha:calls=") + calls("cmdstat_eval:calls=")
}

#[tokio::test]
async fn leases_of_several_ttls_are_held_on_five_servers_for_many_of_them() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guards = [
        take(&locker, "a", SHORT).await,
        take(&locker, "b", SHORT * 2).await,
        take(&locker, "c", LONG).await,
    ];
    // Three a TTL of the shorter, and half as many of the other.
    until_renewed(&locker, 18).await;
    for guard in guards {
        assert!(!guard.is_lost());
        let name = String::from_utf8(guard.name().to_vec()).unwrap();
        assert!(fleet.holding(&name) >= 3);
        guard.release().await.unwrap();
        eventually("it is free everywhere", || fleet.holding(&name) == 0).await;
    }
}

/// redisson #7272, #775: the renewal outlived the unlock.
#[tokio::test]
async fn nothing_is_asked_of_the_server_once_leases_were_released_and_dropped() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let released = take(&locker, "released", SHORT).await;
    let dropped = take(&locker, "dropped", SHORT).await;
    // It is not renewed, and its end is several renewals of the others away.
    let measure = locker.lock("measure").ttl(SHORT * 4).no_renewal().await.unwrap();
    until_renewed(&locker, 2).await;
    released.release().await.unwrap();
    drop(dropped);
    eventually("both are free", || server.cli_text(&["EXISTS", "released", "dropped"]) == "0")
        .await;
    let before = scripts_run(&server);
    assert_eq!(soon("its end", measure.lost()).await, Loss::Expired);
    assert_eq!(scripts_run(&server), before);
    assert_eq!(server.cli_text(&["EXISTS", "released", "dropped"]), "0");
}

#[tokio::test]
async fn a_builder_without_renewal_asks_nothing_and_its_leases_end() {
    let server = RedisServer::start();
    let builder = Locker::builder().node(server.url()).ttl(SHORT).no_renewal();
    let locker = builder.connect().await.unwrap();
    let guard = locker.lock("a").await.unwrap();
    let before = scripts_run(&server);
    assert_eq!(soon("its end", guard.lost()).await, Loss::Expired);
    assert_eq!(scripts_run(&server), before);
    assert_eq!(locker.stats().renewed, 0);
    eventually("its key ends too", || server.cli_text(&["EXISTS", "a"]) == "0").await;
}

#[tokio::test]
async fn a_lease_that_is_extended_by_hand_lasts_beyond_its_first_end() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let guard = locker.lock("a").ttl(SHORT * 2).no_renewal().await.unwrap();
    let measure = locker.lock("measure").ttl(SHORT * 3).no_renewal().await.unwrap();
    eventually("half of it is over", || guard.remaining() < SHORT).await;
    guard.extend().await.unwrap();
    assert!(guard.remaining() > SHORT);
    eventually("half of it is over again", || guard.remaining() < SHORT).await;
    guard.extend().await.unwrap();
    soon("the end of the measure", measure.lost()).await;
    guard.extend().await.unwrap();
    server.cli(&["DEL", "a"]);
    let error = guard.extend().await.unwrap_err();
    assert_eq!((error.loss(), guard.loss()), (Some(Loss::Gone), Some(Loss::Gone)));
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
}

#[tokio::test]
async fn a_ttl_that_was_made_longer_by_hand_is_cut_on_every_server() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet.cli_all(&["PEXPIRE", "a", "3600000"]);
    until_renewed(&locker, 4).await;
    guard.extend().await.unwrap();
    let longest = u64::try_from(SHORT.as_millis()).unwrap();
    let is_cut = || fleet.iter().all(|server| pttl(server, "a").unsigned_abs() <= longest);
    eventually("it ends as the lease does", is_cut).await;
    // What the holder believes did not grow with it.
    assert!(guard.remaining() <= SHORT);
    guard.release().await.unwrap();
}

/// RedLock.net #68: renewals stopped without a word.
#[tokio::test]
async fn renewal_goes_on_when_its_connections_are_killed_again_and_again() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let guard = take(&locker, "a", Duration::from_secs(5)).await;
    for _ in 0..3 {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        until_renewed(&locker, 1).await;
    }
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    eventually("it is free", || server.cli_text(&["EXISTS", "a"]) == "0").await;
}

/// More than are renewed in one go.
#[tokio::test]
async fn thousands_of_leases_are_all_renewed() {
    const LEASES: usize = 2500;
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let mut taking = tokio::task::JoinSet::new();
    for number in 0..LEASES {
        let request = locker.lock(format!("n{number}")).ttl(Duration::from_secs(4));
        taking.spawn(request.into_future());
    }
    let guards = soon("all of them", taking.join_all()).await;
    let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
    // Three renewals a TTL: by then none is held any more that was not renewed.
    until_renewed(&locker, 4 * LEASES as u64).await;
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    assert_eq!(server.cli_text(&["DBSIZE"]), (2 * LEASES).to_string(), "locks and counters");
    assert_eq!((locker.stats().held, locker.stats().lost()), (LEASES as u64, 0));
    drop(guards);
    eventually("all are free", || server.cli_text(&["DBSIZE"]) == LEASES.to_string()).await;
}

/// What one racer sees of one name: with the first locker's lease renewed just when it is given
/// back, nothing of it may reach the lease that the second locker takes right behind.
struct Racer {
    name: String,
    first: Locker,
    second: Locker,
    side: Client,
}

impl Racer {
    /// Renewed after 10 ms.
    const FIRST: Duration = Duration::from_millis(30);
    /// So much shorter that a renewal of the first one's would show.
    const SECOND: Duration = Duration::from_millis(15);

    /// Where the machine is busy, a grant may come after the end of so short a lease. It is given
    /// back then, and proves nothing.
    async fn granted(&mut self, asked: Result<Guard, Error>) -> Option<Guard> {
        let error = match asked {
            Ok(guard) => return Some(guard),
            Err(error) => error,
        };
        assert!(error.is_timeout(), "{}: {error}", self.name);
        self.until_free().await;
        None
    }

    async fn until_free(&mut self) {
        let (side, name) = (&mut self.side, &self.name);
        eventually("it is free", || side.call(&["EXISTS", name]) == Frame::Integer(0)).await;
    }

    /// The second locker's lease, which is not renewed.
    async fn ask_next(&self) -> Result<Guard, Error> {
        let request = self.second.try_lock(&self.name).ttl(Self::SECOND).no_renewal();
        request.min_validity(Duration::ZERO).label("second").await
    }

    async fn race(&mut self, round: u32) {
        let name = self.name.clone();
        let request = self.first.try_lock(&name).ttl(Self::FIRST).min_validity(Duration::ZERO);
        let Some(guard) = self.granted(request.await).await else { return };
        // At that moment, or before it on the same tick, or at once.
        if round % 4 > 0 {
            tokio::time::sleep(Duration::from_millis(8 + u64::from(round % 3))).await;
        }
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        // Half of the next owners come right behind the release, without a look in between.
        let (released, hasty) = if round % 2 == 0 {
            let (released, asked) = tokio::join!(guard.release(), self.ask_next());
            (released, Some(asked))
        } else {
            (guard.release().await, None)
        };
        if let Err(error) = released {
            // The machine was busy for a TTL. Nothing is proved in this round.
            assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
            drop(hasty);
            self.until_free().await;
            return;
        }
        let asked = match hasty {
            // It came before the release.
            Some(Err(error)) if error.kind() == ErrorKind::Contended => self.ask_next().await,
            Some(asked) => asked,
            None => {
                let exists = self.side.call(&["EXISTS", &name]);
                assert_eq!(exists, Frame::Integer(0), "round {round}");
                self.ask_next().await
            }
        };
        let Some(guard) = self.granted(asked).await else { return };
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        let owner = self.side.text(&["GET", &name]);
        // While it is held after the look, it was at the look.
        assert!(guard.is_lost() || owner.contains("second"), "round {round}: {owner:?}");
        let Frame::Integer(left) = self.side.call(&["PTTL", &name]) else { panic!() };
        assert!(left <= 15, "round {round}: prolonged to {left} ms");
        if let Err(error) = guard.release().await {
            assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
            // Its holder takes it for lost before the server does.
            self.until_free().await;
        }
    }
}

/// redisson #7272: the renewal outlived the unlock, and kept the next owner's lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_releases_race_renewals_and_the_next_owner_is_left_alone() {
    const ROUNDS: u32 = 10_000;
    const RACERS: u32 = 25;
    let server = RedisServer::start();
    let (first, second) = (
        Locker::connect(&server.url()).await.unwrap(),
        Locker::connect(&server.url()).await.unwrap(),
    );
    let racers: Vec<_> = (0..RACERS)
        .map(|number| {
            let mut racer = Racer {
                name: format!("n{number}"),
                first: first.clone(),
                second: second.clone(),
                side: server.client(),
            };
            tokio::spawn(async move {
                for round in 0..ROUNDS / RACERS {
                    racer.race(round + number).await;
                }
            })
        })
        .collect();
    for racer in racers {
        racer.await.unwrap();
    }
    let stats = first.stats();
    assert!(stats.renewed > 100, "too few were renewed: {stats}");
    assert!(stats.released > u64::from(ROUNDS / 2), "too few were held: {stats}");
    assert_eq!(stats.held, 0);
}
