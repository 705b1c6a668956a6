//! What there is beside locks, on the paused clock.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::barriers::{Generation, LatchState};
use leasehold::limits::{Allowance, Rate, Reservation};
use leasehold::once::{JobOutcome, RequestOutcome, Slot};
use leasehold::testing::{Process, Server};
use leasehold::{ErrorKind, Event};
use tokio::time::{Instant, advance, sleep, timeout};

use super::{HOUR, SECOND, quorum};

/// The process stands still beyond the lease's end while the work is ready to go on.
#[tokio::test(start_paused = true)]
async fn work_under_a_lease_of_its_own_does_not_go_on_behind_its_end() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let went_on = Arc::new(AtomicUsize::new(0));
    let steps = Arc::clone(&went_on);
    let carried = tokio::spawn(async move {
        let payment = locker.idempotent("payment", b"digest", 24 * HOUR);
        let work = async |_: &_| {
            gone.await.unwrap();
            steps.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(vec![])
        };
        payment.run(work).await
    });
    sleep(SECOND).await;
    go.send(()).unwrap();
    advance(60 * SECOND).await;
    assert_eq!(carried.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(went_on.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn limits_slots_and_idempotency_keys_go_by_the_paused_clock() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let limit = locker.limit("mails", Rate::new(1, HOUR).burst(1));
    assert!(limit.take(1).await.unwrap().is_allowed());
    assert!(!limit.take(1).await.unwrap().is_allowed());
    sleep(HOUR).await;
    assert!(limit.take(1).await.unwrap().is_allowed());

    let hourly = locker.once("report", Slot::every(HOUR));
    let runs = AtomicUsize::new(0);
    let job = async |_: &_| Ok::<_, Infallible>(runs.fetch_add(1, Ordering::SeqCst));
    hourly.run(job).await.unwrap();
    sleep(HOUR).await;
    hourly.run(job).await.unwrap();
    // Whichever slot it is by now, it has run.
    let JobOutcome::Taken { .. } = hourly.run(job).await.unwrap() else {
        panic!("it ran once more")
    };
    assert_eq!(runs.load(Ordering::SeqCst), 2);

    let key = locker.idempotent("payment", b"body", HOUR);
    let pay = async |_: &_| Ok::<_, Infallible>("receipt");
    let RequestOutcome::Ran(_) = key.run(pay).await.unwrap() else { panic!("it is the first") };
    let RequestOutcome::Done(receipt) = key.run(pay).await.unwrap() else { panic!("it was done") };
    assert_eq!(&receipt[..], b"receipt");
    sleep(HOUR + SECOND).await;
    let RequestOutcome::Ran(_) = key.run(pay).await.unwrap() else { panic!("it is forgotten") };
}

/// The other's lease ends with the wait: a question behind that would begin the work.
#[tokio::test(start_paused = true)]
async fn no_work_begins_once_the_wait_for_others_is_over() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let request = || locker.idempotent("payment", b"body", HOUR).ttl(10 * SECOND);
    let never = async |_: &_| std::future::pending::<Result<Vec<u8>, Infallible>>().await;
    assert!(timeout(SECOND, request().run(never)).await.is_err());
    let runs = AtomicUsize::new(0);
    let pay = async |_: &_| {
        runs.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>("receipt")
    };
    let late = request().wait_at_most(9 * SECOND).run(pay).await.unwrap();
    assert!(matches!(late, RequestOutcome::Running { .. }), "{late:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let paid = request().wait_at_most(9 * SECOND).run(pay).await.unwrap();
    assert!(matches!(paid, RequestOutcome::Ran(_)), "{paid:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_at_a_latch_is_told_of_its_opening_without_a_timer() {
    let server = Server::new();
    let (ours, theirs) = (Process::new(), Process::new());
    let locker = ours.locker(&server).await.unwrap();
    let latch = locker.latch("ready", 2);
    let waiting = tokio::spawn({
        let latch = theirs.locker(&server).await.unwrap().latch("ready", 2);
        async move { latch.wait(HOUR * 24).await }
    });
    assert_eq!(latch.count_down("one").await.unwrap(), LatchState::Closed { left: 1 });
    assert_eq!(latch.count_down("one").await.unwrap(), LatchState::Closed { left: 1 });
    sleep(HOUR).await;
    assert!(!waiting.is_finished());
    let before = Instant::now();
    assert!(latch.count_down("two").await.unwrap().is_open());
    assert!(waiting.await.unwrap().unwrap().is_open());
    assert_eq!(Instant::now(), before);
}

/// One of them brings word of a generation that the server has forgotten.
#[tokio::test(start_paused = true)]
async fn parties_of_one_process_are_let_go_at_once_by_what_it_brings_itself() {
    let server = Server::new();
    let barrier = server.locker().await.unwrap().barrier("x", 2);
    let (mut one, mut other) = (barrier.party("one"), barrier.party("other"));
    assert!(!one.arrive().await.unwrap().is_open());
    assert!(other.arrive().await.unwrap().is_open());
    server.restart_empty();
    let waiting = tokio::spawn(async move { one.wait(HOUR).await });
    sleep(SECOND).await;
    assert!(!waiting.is_finished());
    let before = Instant::now();
    assert!(!other.arrive().await.unwrap().is_open());
    assert!(waiting.await.unwrap().unwrap().is_open());
    assert_eq!(Instant::now(), before);
}

/// It asks again because its connection ended. What it asks last says how far the latch is.
#[tokio::test(start_paused = true)]
async fn a_question_that_the_end_of_a_wait_cuts_off_is_no_failure() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let latch = locker.latch("x", 2);
    let mut party = locker.barrier("x", 2).party("a");
    for is_latch in [true, false] {
        let waited = async {
            match is_latch {
                true => latch.wait(SECOND).await.map(LatchState::is_open),
                false => party.wait(SECOND).await.map(Generation::is_open),
            }
        };
        let (is_open, ()) = tokio::join!(waited, async {
            sleep(SECOND * 9 / 10).await;
            server.restart();
            server.hang();
            sleep(SECOND / 5).await;
            server.resume();
        });
        assert!(!is_open.unwrap());
    }
}

/// The last question is asked when the wait is over.
#[tokio::test(start_paused = true)]
async fn a_wait_is_told_to_observers_once_as_to_its_caller() {
    let (server, ours, theirs) = (Server::new(), Process::new(), Process::new());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let builder = ours.builder(&server).observer(move |event: &Event<'_>| {
        if let Event::Answered { outcome, .. } = event {
            hears.lock().unwrap().push(*outcome);
        }
    });
    let (locker, others) =
        (builder.connect().await.unwrap(), theirs.locker(&server).await.unwrap());
    let told = || std::mem::take(&mut *heard.lock().unwrap());
    let (half, tick) = (SECOND / 2, SECOND / 20);

    let (latch, its) = (locker.latch("x", 1), others.latch("x", 1));
    let (opened, ()) = tokio::join!(latch.wait(SECOND), async {
        sleep(half).await;
        ours.cut_off(&server);
        its.count_down("a").await.unwrap();
        sleep(half + tick).await;
        ours.rejoin(&server);
    });
    assert!(opened.unwrap().is_open());
    assert_eq!(told(), ["open"]);

    let mut party = locker.barrier("x", 2).party("a");
    let mut other = others.barrier("x", 2).party("b");
    let (opened, ()) = tokio::join!(party.wait(SECOND), async {
        sleep(half).await;
        ours.cut_off(&server);
        other.arrive().await.unwrap();
        sleep(half + tick).await;
        ours.rejoin(&server);
    });
    assert!(opened.unwrap().is_open());
    assert_eq!(told(), ["arrived", "open"]);

    let closed = locker.latch("closed", 1);
    assert!(!closed.wait(tick).await.unwrap().is_open());
    let (failed, ()) = tokio::join!(closed.wait(SECOND), async {
        sleep(half).await;
        server.hang();
    });
    assert!(failed.is_err());
    assert_eq!(told(), ["closed", "failed"]);
}

/// Servers that hang take a little time each, and not that of a command; one that answers is not held up by them.
#[tokio::test(start_paused = true)]
async fn servers_that_hang_keep_a_limit_for_little_longer_than_one_command() {
    const COMMAND: Duration = Duration::from_millis(500);
    let (servers, locker) = quorum::<5>().await;
    let limit = locker.limit("x", Rate::new(50, HOUR));
    assert!(limit.take(1).await.unwrap().is_allowed());
    servers.iter().for_each(Server::hang);
    let answer = timeout(2 * COMMAND, limit.take(1)).await.expect("an answer");
    assert!(answer.is_err());
    servers[0].resume();
    for number in 0..5 {
        let answer = timeout(COMMAND, limit.take(1)).await.expect("an answer");
        assert!(answer.is_ok_and(Allowance::is_allowed), "number {number}");
    }
}

/// Servers that have no tokens left say so, and one that hangs holds up no booking.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_does_not_hold_up_a_refusal() {
    const COMMAND: Duration = Duration::from_millis(500);
    let (servers, locker) = quorum::<3>().await;
    let limit = locker.limit("x", Rate::new(3, HOUR));
    for _ in 0..3 {
        assert!(limit.take(1).await.unwrap().is_allowed());
    }
    servers[0].hang();
    let answer = timeout(COMMAND / 2, limit.take(1)).await.expect("an answer");
    assert!(answer.is_ok_and(|it| !it.is_allowed()));
    let answer = timeout(COMMAND, limit.reserve(1, HOUR)).await.expect("an answer");
    assert!(matches!(answer, Ok(Reservation::Booked { .. })), "{answer:?}");
}

/// A wait whose server hangs ends at its limit, and one whose server begins to hang meanwhile a command's time later.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_keeps_no_wait_past_its_limit() {
    const COMMAND: Duration = Duration::from_millis(500);
    let (limit, tick) = (COMMAND / 5, COMMAND / 25);
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let latch = locker.latch("x", 2);
    let mut party = locker.barrier("x", 2).party("a");
    assert!(!latch.wait(limit).await.unwrap().is_open());
    assert!(!party.wait(limit).await.unwrap().is_open());
    server.hang();
    assert!(timeout(limit + tick, latch.wait(limit)).await.expect("its end").is_err());
    server.restart();
    assert!(!latch.wait(limit).await.unwrap().is_open());
    server.hang();
    assert!(timeout(limit + tick, party.wait(limit)).await.expect("its end").is_err());
    server.restart();
    assert!(!party.wait(limit).await.unwrap().is_open());
    let (waited, ()) = tokio::join!(timeout(limit + COMMAND + tick, latch.wait(limit)), async {
        sleep(limit / 2).await;
        server.hang();
    });
    assert!(waited.expect("its end").is_err());
}
