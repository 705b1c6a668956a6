//! One task for all leases of a locker, which renews them and notices their ends.
//!
//! It sleeps until something is due. While there are leases it wakes at least once a beat, so that
//! a beat that comes late says that everything stood still.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use tokio::time::sleep;

use super::engine::Engine;
use super::keeper::Keeper;
use super::renew::renew;
use super::resend::give_back_again;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::server::watch::kept;

/// Keeps the leases of a locker for as long as it is there.
pub(crate) async fn keep(engine: Weak<Engine>) {
    let shared = |it: Arc<Engine>| (Arc::clone(it.keeper()), Arc::clone(it.watchers()));
    let Some((keeper, watchers)) = engine.upgrade().map(shared) else { return };
    let mut batches: Vec<BoxFuture<'static, ()>> = Vec::new();
    loop {
        let now = clock::now();
        {
            let Some(engine) = engine.upgrade() else { return };
            let news = watchers.kept().take_news();
            if news.have_moved {
                keeper.hasten_all(now);
                give_back_again(&engine);
            }
            keeper.hear(news, now);
            loop {
                let (due, is_all) = keeper.look_after(now);
                if !due.is_empty() {
                    batches.push(Box::pin(renew(Arc::clone(&engine), due)));
                }
                if is_all {
                    break;
                }
            }
            // Only now: what has ended meanwhile is to be told from the beat before.
            engine.note_beat(now);
        }
        rest(&keeper, watchers.kept(), &mut batches).await;
    }
}

/// Waits until something is due, somebody calls, a server tells of something, or a batch is done.
async fn rest(keeper: &Keeper, told: &kept::Kept, batches: &mut Vec<BoxFuture<'static, ()>>) {
    let now = clock::now();
    let planned = keeper.plan(now);
    let mut called = pin!(keeper.called.notified());
    let mut stirred = pin!(told.stirred());
    let mut slept = pin!(async {
        match planned {
            Some(at) => sleep(at.since(now)).await,
            None => std::future::pending().await,
        }
    });
    poll_fn(|context| {
        let before = batches.len();
        batches.retain_mut(|batch| batch.as_mut().poll(context).is_pending());
        let is_over = batches.len() < before
            || called.as_mut().poll(context).is_ready()
            || stirred.as_mut().poll(context).is_ready()
            || slept.as_mut().poll(context).is_ready();
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
