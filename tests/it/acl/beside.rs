//! The rights of primitives beside locks, and of several locks at once.

use leasehold::limits::Rate;
use leasehold::once::Slot;
use leasehold::{ErrorKind, LockRequest};

use super::*;

#[tokio::test]
async fn several_locks_taking_over_and_naming_a_leader_need_the_rights_of_one_lock() {
    let server = server_with(&rights::of("fenced"));
    let (one, other) = (locker(&server, SHORT).await, locker(&server, SHORT).await);
    one.lock_all(["a", "b"]).await.unwrap().release().await.unwrap();
    drop(take(&one, "a").await);
    drop(other.lock("a").steal().await.unwrap());
    let ticket = take(&one, "c").await.into_ticket(LONG).await.unwrap();
    other.adopt(&ticket).await.unwrap().release().await.unwrap();

    let server = server_with(&rights::of("waiting"));
    let (one, other) = (locker(&server, LONG).await, locker(&server, LONG).await);
    let guard = take(&other, "a").await;
    assert!(!one.elect("a").nominate("nobody").await.unwrap());
    // They come in any order.
    let (unfenced, several) = (one.lock("a").unfenced(), one.lock_all(["a", "b"]));
    let unfenced = tokio::spawn(async { unfenced.await.unwrap().release().await });
    let several = tokio::spawn(async { several.await.unwrap().release().await });
    eventually("they wait", || one.stats().waiting > 0 && one.stats().contended > 1).await;
    drop(guard);
    soon("the one", unfenced).await.unwrap().unwrap();
    soon("both", several).await.unwrap().unwrap();
    assert_content(&one);
}

#[tokio::test]
async fn several_locks_name_the_key_that_they_may_not_touch() {
    for right in ["~app:*", "+evalsha"] {
        let server = server_with(&without("database", right));
        let locker = locker(&server, LONG).await;
        assert_names(&told(locker.lock_all(["a", "b"]).await), &right.replace('*', "a"));
    }
}

#[tokio::test]
async fn shares_need_their_key_and_what_counts_them() {
    let [fenced, waiting] = ["fenced", "waiting"].map(rights::of);
    let server = server_with(&fenced);
    let locker = locker(&server, LONG).await;
    assert_eq!(locker.read("a").await.map(|_| ()).unwrap_err().kind(), ErrorKind::Auth);
    rights::grant(&server, &[waiting, rights::row("shares")].concat());
    let mut reader = locker.read("a").await.unwrap();
    reader.extend().await.unwrap();
    reader.upgrade().await.unwrap();
    reader.downgrade().await.unwrap();
    let (writer, released) = soon("the writer has it", async {
        tokio::join!(locker.write("a").into_future(), async {
            tokio::task::yield_now().await;
            reader.release().await
        })
    })
    .await;
    released.unwrap();
    writer.unwrap().release().await.unwrap();
    locker.semaphore("a", 2).acquire(2).await.unwrap().release().await.unwrap();
}

/// Client tracking tells the next one of what it was given.
#[tokio::test]
async fn shares_and_writers_are_released_without_the_right_to_publish() {
    let server = server_with(&[without("waiting", "+publish"), rights::row("shares")].concat());
    let (one, other) = (locker(&server, LONG).await, locker(&server, LONG).await);
    type Wish = fn(&Locker) -> LockRequest;
    let (read, write): (Wish, Wish) = (|it| it.read("a"), |it| it.write("a"));
    let permit: Wish = |it| it.semaphore("a", 1).acquire(1);
    for (held, awaited) in [(read, write), (write, read), (write, write), (permit, permit)] {
        let held = soon("it is had", held(&one).into_future()).await.unwrap();
        let waiting = tokio::spawn(awaited(&other).into_future());
        eventually("it is in the queue", || exists(&server, "{app:a}:queue")).await;
        held.release().await.unwrap();
        soon("the next", waiting).await.unwrap().unwrap().release().await.unwrap();
        assert!(!exists(&server, "app:a"));
    }
    assert_content(&one);
    assert_content(&other);
}

#[tokio::test]
async fn several_locks_need_no_right_to_the_turn() {
    let keys = ["~app:a", "~app:b"].map(str::to_owned);
    let server = server_with(&[&without("waiting", "~app:*"), &keys[..]].concat());
    let (one, other) = (locker(&server, LONG).await, locker(&server, LONG).await);
    let held = take(&one, "b").await;
    let both = tokio::spawn(other.lock_all(["a", "b"]).into_future());
    eventually("it keeps what it has got", || exists(&server, "app:a")).await;
    held.release().await.unwrap();
    soon("both", both).await.unwrap().unwrap().release().await.unwrap();
    let warning = warned(&other).await;
    assert!(warning.contains("docs/acl.md"), "{warning}");
}

#[tokio::test]
async fn what_there_is_beside_locks_needs_its_keys() {
    let (fenced, own) = (rights::of("fenced"), rights::row("family"));
    let server = server_with(&fenced);
    let locker = locker(&server, LONG).await;
    let ask = async || {
        let rate = Rate::new(9, LONG);
        let mut failed = Vec::new();
        failed.extend(locker.limit("a", rate).take(1).await.err());
        let job = locker.once("a", Slot::every(LONG)).at_least_once(LONG);
        failed.extend(job.run(async |_| Ok::<_, ()>(())).await.err());
        let request = locker.idempotent("a", "", LONG);
        failed.extend(request.run(async |_| Ok::<_, ()>("")).await.err());
        failed
    };
    let failed = soon("three refusals", ask()).await;
    assert!(
        failed.len() == 3 && failed.iter().all(|error| error.kind() == ErrorKind::Auth),
        "{failed:?}"
    );
    rights::grant(&server, &[fenced.clone(), own].concat());
    let failed = soon("three answers", ask()).await;
    assert!(failed.is_empty(), "{failed:?}");
    let latch = locker.latch("a", 1);
    assert_eq!(latch.count_down("x").await.unwrap_err().kind(), ErrorKind::Auth);
    rights::grant(&server, &[fenced, rights::row("latches")].concat());
    // No right to client tracking: a waiter asks now and then.
    let (waited, counted) = soon("the opening", async {
        tokio::join!(latch.wait(LONG), async {
            tokio::task::yield_now().await;
            latch.count_down("x").await
        })
    })
    .await;
    assert!(waited.unwrap().is_open() && counted.unwrap().is_open());
    let mut party = locker.barrier("a", 1).party("x");
    assert_eq!(party.arrive().await.unwrap_err().kind(), ErrorKind::Auth);
    rights::grant(&server, &[rights::of("fenced"), rights::row("barriers")].concat());
    assert!(party.arrive().await.unwrap().is_open());
}

#[tokio::test]
async fn what_several_servers_agree_on_needs_no_more_than_on_one() {
    let fleet = Fleet::start(3);
    let all = [rights::of("several"), rights::row("family")].concat();
    fleet.iter().for_each(|server| rights::grant(server, &all));
    let urls = fleet.iter().map(rights::url).collect::<Vec<_>>();
    let builder = Locker::builder().nodes(urls).key_prefix(PREFIX).restart_quarantine(false);
    let locker = builder.connect().await.unwrap();
    let request = locker.idempotent("a", "", LONG);
    let job = locker.once("a", Slot::every(LONG));
    let asked = async {
        for _ in 0..2 {
            request.run(async |_| Ok::<_, ()>("")).await.unwrap();
            job.run(async |_| Ok::<_, ()>(())).await.unwrap();
        }
    };
    soon("four answers", asked).await;
}
