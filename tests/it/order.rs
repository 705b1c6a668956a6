//! Which commands go to the server, in which order and on which connection: safety rules 1 and 4.

use std::collections::{HashMap, HashSet};
use std::future::IntoFuture;
use std::time::Duration;

use leasehold::{ErrorKind, Locker};
use leasehold_resp::Frame;
use leasehold_testing::scripted::greeting;
use leasehold_testing::{
    Action, Command, FaultProxy, RedisServer, STUCK, ScriptedServer, eventually, soon,
};

/// A command of ours that is about a lock: `EVALSHA digest keys lock ..` or `EVAL script keys lock ..`.
fn lock_of(command: &Command) -> Option<String> {
    let is_script = command.is(&["EVALSHA"]) || command.is(&["EVAL"]);
    is_script.then(|| command.word(3))
}

/// The owner's value: behind the three keys of an acquire, or the one key of the others.
fn owner_of(command: &Command) -> String {
    command.word(if command.word(2) == "3" { 6 } else { 4 })
}

fn is_acquire(command: &Command) -> bool {
    lock_of(command).is_some() && command.is_acquire()
}

/// Says yes to everything.
fn yes(command: &Command) -> Action {
    greeting(command).unwrap_or_else(|| Action::granted(command))
}

#[tokio::test]
async fn a_lease_stays_on_the_connection_that_it_began_on() {
    let server = ScriptedServer::start(yes);
    let locker = Locker::connect(&server.url()).await.unwrap();
    let mut guards = Vec::new();
    for number in 0..9 {
        guards.push(locker.lock(format!("n{number}")).await.unwrap());
    }
    for guard in &guards {
        guard.extend().await.unwrap();
    }
    let dropped = guards.split_off(5);
    for guard in guards {
        guard.release().await.unwrap();
    }
    drop(dropped);
    server.until_released(9).await;

    let mut asked: HashMap<String, Vec<usize>> = HashMap::new();
    for command in server.commands() {
        if let Some(lock) = lock_of(&command) {
            asked.entry(lock).or_default().push(command.connection);
        }
    }
    assert_eq!(asked.len(), 9);
    // Its acquire, its extension, its release.
    assert!(asked.values().all(|asked| *asked == [0; 3]), "{asked:?}");
}

/// The `redis-lock` crate tried again as the same owner after a failure, and blocked itself.
#[tokio::test]
async fn every_attempt_has_an_owner_of_its_own() {
    let mut attempts = 0;
    let server = ScriptedServer::start(move |command| {
        if !is_acquire(command) {
            return yes(command);
        }
        attempts += 1;
        match attempts {
            1..=3 => Action::error("LOADING Redis is loading the dataset in memory"),
            4..=6 => Action::held(command, "x", 1),
            7 => Action::Close,
            _ => Action::granted(command),
        }
    });
    let locker = Locker::connect(&server.url()).await.unwrap();
    let guard = soon("the eighth attempt", locker.lock("a").into_future()).await.unwrap();
    guard.release().await.unwrap();
    let acquires: Vec<Command> = server.commands().into_iter().filter(is_acquire).collect();
    assert_eq!(acquires.len(), 8);
    // The three that were held were one owner's, which said in the queue that it still waits.
    let owners: HashSet<String> = acquires.iter().map(owner_of).collect();
    let again = acquires.iter().filter(|it| it.words.iter().any(|word| word == "beat")).count();
    assert_eq!((owners.len(), again), (5, 3));
    let is_id = |id: &str| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(owners.iter().all(|it| it.strip_suffix('~').is_some_and(is_id)), "{owners:?}");
}

/// A server that stood still for a moment had cost each waiter its place, though the entry lived.
#[tokio::test]
async fn a_waiter_whose_answer_is_late_asks_again_as_the_same_owner() {
    let mut late: Vec<Action> = Vec::new();
    let mut late_on = None;
    let server = ScriptedServer::start(move |command| {
        let is_beat = command.has_one_of(&["beat"]);
        let answer = match is_acquire(command) {
            true if !late.is_empty() => Action::granted(command),
            true => Action::held(command, "x", 60_000),
            false => yes(command),
        };
        if is_beat && late.is_empty() {
            late_on = Some(command.connection);
        } else if late_on != Some(command.connection) {
            return answer;
        }
        late.push(answer);
        // All at once, when the waiter has asked a second time.
        if is_beat && late.len() > 1 {
            late_on = None;
            return Action::Sequence(std::mem::take(&mut late));
        }
        Action::Silence
    });
    let (ttl, timeout) = (Duration::from_millis(4500), Duration::from_secs(1));
    let builder = Locker::builder().node(server.url()).command_timeout(timeout);
    let locker = builder.ttl(ttl).connect().await.unwrap();
    let guard = soon("the second answer", locker.lock("a").into_future()).await.unwrap();
    guard.release().await.unwrap();
    let in_queue = |command: &Command| command.has_one_of(&["enter", "beat"]);
    let asked: Vec<Command> = server.commands().into_iter().filter(in_queue).collect();
    let owners: HashSet<String> = asked.iter().map(owner_of).collect();
    assert_eq!((asked.len(), owners.len()), (3, 1));
}

/// A refusal of the token that was proposed, to be sent later.
fn stale(acquire: &Command) -> String {
    let (stamp, token) = (acquire.word(acquire.words.len() - 1), acquire.word(8));
    format!("*3\r\n$16\r\n{stamp}\r\n$5\r\nstale\r\n${}\r\n{token}\r\n", token.len())
}

/// Safety rules 1 and 4: one server ends its connection with an acquire unanswered, and is connected
/// again when the others have the same owner propose once more.
#[tokio::test]
async fn an_owner_asks_no_server_on_a_second_connection() {
    let servers = [Action::Close, Action::Silence, Action::Silence].map(|to_the_first| {
        let mut is_first = true;
        ScriptedServer::start(move |command| {
            let is_asked_first = is_acquire(command) && std::mem::take(&mut is_first);
            if is_asked_first { to_the_first.clone() } else { yes(command) }
        })
    });
    let urls = servers.iter().map(ScriptedServer::url);
    let builder = Locker::builder().nodes(urls).restart_quarantine(false).command_timeout(STUCK);
    let locker = builder.connect().await.unwrap();
    let [ending, others @ ..] = &servers;
    let before = ending.accepted();
    let asked = tokio::spawn(locker.try_lock("a").into_future());
    soon("another connection", ending.until_accepted(before + 1)).await;
    eventually("it is ready", || locker.stats().servers[0].connected).await;
    for other in others {
        let commands = other.until(|commands| commands.iter().any(is_acquire)).await;
        let acquire = commands.iter().find(|command| is_acquire(command)).unwrap();
        other.send(acquire.connection, stale(acquire));
    }
    let guard = soon("the lock", asked).await.unwrap().unwrap();
    let acquires = |server: &ScriptedServer| -> Vec<Command> {
        server.commands().into_iter().filter(is_acquire).collect()
    };
    let [unanswered] = &acquires(ending)[..] else { panic!("{:?}", acquires(ending)) };
    for other in others {
        let owners: Vec<String> = acquires(other).iter().map(owner_of).collect();
        assert_eq!(owners, [owner_of(unanswered), owner_of(unanswered)]);
    }
    soon("the release", guard.release()).await.unwrap();
    // The next owner asks there.
    soon("a lock", locker.lock("a").into_future()).await.unwrap().release().await.unwrap();
    let acquires = acquires(ending);
    assert!(acquires[1].connection > acquires[0].connection, "{acquires:?}");
    assert_ne!(owner_of(&acquires[1]), owner_of(&acquires[0]));
}

/// Safety rule 4: the release of an acquire that timed out goes out behind it, where it cannot
/// overtake it (redsync lost locks so until their TTL).
#[tokio::test]
async fn an_acquire_without_an_answer_is_released_behind_it_on_its_connection() {
    let server = ScriptedServer::start(|command| greeting(command).unwrap_or(Action::Silence));
    let locker =
        Locker::builder().node(server.url()).command_timeout(STUCK).connect().await.unwrap();
    let limited = locker.lock("a").wait_at_most(Duration::from_millis(50));
    let error = soon("it is told", limited.into_future()).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    let commands = server.until_released(1).await;
    let about: Vec<&Command> =
        commands.iter().filter(|command| lock_of(command).as_deref() == Some("a")).collect();
    assert!(is_acquire(about[0]) && about[1].is_release());
    assert_eq!(owner_of(about[1]), owner_of(about[0]));
    assert_eq!(about[1].connection, about[0].connection);
}

/// What was never answered is told again on the next connection, and only then.
#[tokio::test]
async fn a_release_is_sent_again_only_if_its_connection_ended_before_the_answer() {
    let mut refused = false;
    let server = ScriptedServer::start(move |command| {
        if command.is_release() && !refused {
            refused = true;
            return Action::Close;
        }
        yes(command)
    });
    let locker = Locker::connect(&server.url()).await.unwrap();
    drop(locker.lock("a").await.unwrap());
    soon("a second connection", server.until_accepted(2)).await;
    locker.lock("b").await.unwrap().release().await.unwrap();
    let releases: Vec<Command> = server
        .commands()
        .into_iter()
        .filter(|command| command.is_release() && lock_of(command).as_deref() == Some("a"))
        .collect();
    let where_to: Vec<usize> = releases.iter().map(|command| command.connection).collect();
    assert_eq!(where_to, [0, 1]);
    assert_eq!(owner_of(&releases[0]), owner_of(&releases[1]));
}

/// The script of a dropped guard's release is sent only where the server has lost it.
#[tokio::test]
async fn a_dropped_guards_release_calls_its_script_by_the_digest() {
    let mut is_lost = true;
    let server = ScriptedServer::start(move |command| {
        if command.is_release() && std::mem::take(&mut is_lost) {
            return Action::error("NOSCRIPT No matching script. Please use EVAL.");
        }
        yes(command)
    });
    let locker = Locker::connect(&server.url()).await.unwrap();
    drop(locker.lock("a").await.unwrap());
    server.until_released(2).await;
    drop(locker.lock("b").await.unwrap());
    let commands = server.until_released(3).await;
    let releases: Vec<&Command> = commands.iter().filter(|command| command.is_release()).collect();
    let names: Vec<String> = releases.iter().map(|command| command.name()).collect();
    assert_eq!(names, ["EVALSHA", "EVAL", "EVALSHA"]);
    assert_eq!(owner_of(releases[0]), owner_of(releases[1]));
    assert_eq!(releases[0].connection, releases[1].connection);
}

/// The release is repeated behind the request that came after it.
#[tokio::test]
async fn a_lock_is_had_again_at_once_although_its_release_has_to_bring_the_script() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    for _ in 0..3 {
        server.cli(&["SCRIPT", "FLUSH"]);
        let other = locker.lock("other").await.unwrap();
        let guard = locker.lock("a").await.unwrap();
        drop(guard);
        let again = soon("a try", locker.try_lock("a").into_future()).await.unwrap();
        again.release().await.unwrap();
        other.release().await.unwrap();
    }
}

/// A token that cannot be the answer to what was proposed makes no guard.
#[tokio::test]
async fn a_token_below_the_proposal_is_no_grant() {
    let server = ScriptedServer::start(|command| {
        let below = [Frame::Bulk("granted".into()), Frame::Integer(1)];
        greeting(command).unwrap_or_else(|| Action::stamped(command, below))
    });
    let locker = Locker::connect(&server.url()).await.unwrap();
    let error = locker.try_lock("a").await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable, "{error}");
    server.until_released(1).await;
}

/// What is owed goes out before anybody else's command.
#[tokio::test]
async fn a_new_connection_pays_its_debts_first() {
    let server = ScriptedServer::start(yes);
    let mut proxy = FaultProxy::start(server.address());
    let locker = Locker::connect(&proxy.url()).await.unwrap();
    let mut guards = Vec::new();
    for number in 0..6 {
        guards.push(locker.lock(format!("n{number}")).await.unwrap());
    }
    proxy.refuse().await;
    proxy.cut();
    soon("the connection is gone", proxy.until_open(0)).await;
    drop(guards);
    let waiting = tokio::spawn(locker.lock("next").into_future());
    proxy.accept().await;
    soon("the next", waiting).await.unwrap().unwrap().release().await.unwrap();
    let commands = server.until_released(6).await;
    let about = commands.iter().filter(|command| command.connection == 1);
    let about: Vec<&Command> = about.filter(|command| lock_of(command).is_some()).collect();
    assert!(about[..6].iter().all(|command| command.is_release()), "{about:?}");
}
