use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::*;
use crate::support::{eventually, soon};

static CALLS: AtomicUsize = AtomicUsize::new(0);
static IS_OVER: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// A resolver that answers once it is released.
fn hang(_: &str) -> io::Result<Vec<SocketAddr>> {
    CALLS.fetch_add(1, Ordering::SeqCst);
    let (is_over, told) = &IS_OVER;
    drop(told.wait_while(is_over.lock().unwrap(), |is_over| !*is_over).unwrap());
    Ok(vec![SocketAddr::from(([10, 0, 0, 1], 0))])
}

#[tokio::test]
async fn a_resolver_that_hangs_has_one_thread_and_all_that_wait_have_its_answer() {
    for _ in 0..9 {
        let given_up = tokio::time::timeout(Duration::ZERO, look_up("hangs.invalid", hang));
        assert!(given_up.await.is_err());
    }
    let waiting = [(); 2].map(|()| tokio::spawn(look_up("hangs.invalid", hang)));
    let under_way = || {
        let under_way = lock(&UNDER_WAY);
        let (_, lookup) = under_way.iter().find(|(name, _)| name == "hangs.invalid").unwrap();
        // Without the handle of this call.
        (Arc::strong_count(lookup) - 1, lock(lookup).waiting.len())
    };
    eventually("both wait", || matches!(under_way(), (2, 2..))).await;
    assert!(under_way().1 <= 3, "those that have given up are forgotten");
    *IS_OVER.0.lock().unwrap() = true;
    IS_OVER.1.notify_all();
    for waits in waiting {
        let addresses = soon("an answer", waits).await.unwrap().unwrap();
        assert_eq!(addresses, [SocketAddr::from(([10, 0, 0, 1], 0))]);
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_answer_has_the_port_that_was_asked_for() {
    let addresses = soon("an answer", lookup_host(("localhost", 7))).await.unwrap();
    assert!(!addresses.is_empty() && addresses.iter().all(|address| address.port() == 7));
}

/// Servers at several ports of one host do not replace one another.
#[test]
fn the_address_that_has_served_is_known_for_each_port() {
    let of = |port| [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], port)));
    for port in [6379, 6380] {
        prefer(("several.invalid", port), of(port)[1]);
    }
    for port in [6379, 6380] {
        let [one, other] = of(port);
        assert_eq!(in_order(("several.invalid", port), vec![one, other]), [other, one]);
    }
}
