//! Readers and permits, as other clients see them.

use leasehold::ErrorKind;
use leasehold::inspect::LockState;
use leasehold::sharing::Shared;
use leasehold_testing::{RedisServer, binary, soon};

use super::{locker, refused, take, until_waiting};

#[tokio::test]
async fn a_look_shows_what_is_shared_and_how_much_is_taken() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let seen = async |name: &str| {
        let view = soon("a look", locker.inspect(name)).await.unwrap();
        assert_eq!(view.state, LockState::Held);
        let [holder] = <[_; 1]>::try_from(view.holders).unwrap();
        assert!(holder.is_lease());
        (holder.holder.label.clone(), holder.holder.shared, holder.shares)
    };
    let first = take(locker.read("a").label("catalog")).await;
    let second = take(locker.read("a")).await;
    let label = Some("catalog".to_owned());
    assert_eq!(seen("a").await, (label, Some(Shared::Readers), Some(2)));
    let error = refused(locker.try_write("a")).await;
    assert!(error.to_string().contains("readers, one of them \"catalog\""), "{error}");
    assert_eq!(error.report().holder().unwrap().shared, Some(Shared::Readers));
    first.release().await.unwrap();
    assert_eq!(seen("a").await, (None, Some(Shared::Readers), Some(1)), "of one that is left");
    let permits = locker.semaphore("b", 5);
    let permit = take(permits.acquire(3)).await;
    assert_eq!(seen("b").await, (None, Some(Shared::Permits { limit: 5 }), Some(3)));
    let writer = take(locker.write("c").label("writer")).await;
    assert_eq!(seen("c").await, (Some("writer".to_owned()), None, None));

    let waiter = tokio::spawn({
        let locker = locker.clone();
        async move { locker.write("a").await }
    });
    until_waiting(&server, 1).await;
    let mut listed = locker.list("*");
    let mut names = Vec::new();
    while let Some(view) = soon("a lock", listed.next()).await.unwrap() {
        let taken = view.holders[0].shares;
        names.push((String::from_utf8(view.name).unwrap(), taken, view.waiting));
    }
    names.sort();
    let all = [
        ("a", Some(1), if binary::has_queue() { 1 } else { 0 }),
        ("b", Some(3), 0),
        ("c", None, 0),
    ];
    assert_eq!(names, all.map(|(name, taken, waiting)| (name.to_owned(), taken, waiting)));

    let broken = locker.break_lease(&locker.inspect("b").await.unwrap()).await.unwrap();
    assert!(broken.is_complete());
    assert_eq!(permit.extend().await.unwrap_err().kind(), ErrorKind::Lost);
    second.release().await.unwrap();
    soon("the writer", waiter).await.unwrap().unwrap().release().await.unwrap();
    writer.release().await.unwrap();
}
