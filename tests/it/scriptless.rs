//! Locks on servers that run no scripts. `compared` has the tests that need a server that compares in `SET`.

#[cfg(feature = "scriptless")]
mod compared;
#[cfg(all(feature = "scriptless", feature = "sentinel"))]
mod sentinels;

use leasehold::{Error, ErrorKind, Locker};
use leasehold_testing::server::Builder;
use leasehold_testing::{RedisServer, soon};

/// All by which a script is run or loaded.
fn without_scripts() -> Builder {
    let words = ["EVAL", "EVALSHA", "SCRIPT"].into_iter();
    let words = words.chain(leasehold_testing::binary::is_seven().then_some("FCALL"));
    words.fold(RedisServer::builder(), |builder, word| {
        builder.arg("--rename-command").arg(word).arg("")
    })
}

fn refused<T>(tried: Result<T, Error>, kind: ErrorKind, says: &str) {
    let error = tried.map(|_| ()).unwrap_err();
    assert!(
        error.kind() == kind && error.to_string().contains(says),
        "{:?}: {error}",
        error.kind()
    );
}

#[tokio::test]
async fn a_server_without_scripts_is_told_of_and_so_is_the_cure() {
    let server = without_scripts().start();
    let locker = soon("connecting", Locker::connect(&server.url())).await.unwrap();
    let error = soon("an answer", async { locker.try_lock("a").await.map(|_| ()) }).await;
    let text = error.as_ref().unwrap_err().to_string();
    assert!(text.contains(&server.address().to_string()), "{text}");
    refused(error, ErrorKind::Misuse, "Builder::scriptless (feature `scriptless`)");
}

#[cfg(all(feature = "scriptless", feature = "cluster", feature = "grace"))]
#[tokio::test]
async fn what_takes_scripts_is_refused_before_a_server_is_asked() {
    let cluster = Locker::builder().node("redis-cluster://127.0.0.1:1").scriptless();
    refused(cluster.connect().await, ErrorKind::Misuse, "a Cluster takes scripts");
    let graced = Locker::builder().node("redis://127.0.0.1:1").failover_grace(true).scriptless();
    refused(graced.connect().await, ErrorKind::Misuse, "a failover grace takes scripts");
}
