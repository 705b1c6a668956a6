//! One way to take a share, by all tasks together.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::TASKS;
use super::node::Node;

/// Where the permits of Redisson's structure are counted.
pub const COUNTER: &str = "{name}:permits";

type Taking = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Takes, and gives back unless it is to stay.
type Take = Arc<dyn Fn(bool) -> Taking + Send + Sync>;

pub enum Way {
    Here(Take),
    Node(Node),
}

pub struct Sharer {
    pub what: &'static str,
    pub library: &'static str,
    /// Whether others can hold it at the same time.
    pub has_members: bool,
    pub way: Way,
}

impl Sharer {
    /// This number of times, by all tasks together.
    pub async fn take(&mut self, count: usize, stays: bool) {
        let take = match &mut self.way {
            Way::Here(take) => take,
            Way::Node(node) => return node.take(count, stays),
        };
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (take, times) = (Arc::clone(take), (count + task) / TASKS);
            tasks.spawn(async move {
                for _ in 0..times {
                    take(stays).await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("a share is had and given back");
        }
    }
}

pub fn sharer<F: Future<Output = ()> + Send + 'static>(
    what: &'static str,
    library: &'static str,
    has_members: bool,
    take: impl Fn(bool) -> F + Send + Sync + 'static,
) -> Sharer {
    let take: Take = Arc::new(move |stays| Box::pin(take(stays)));
    Sharer { what, library, has_members, way: Way::Here(take) }
}

pub fn owner() -> String {
    static OWNERS: AtomicU64 = AtomicU64::new(0);
    format!("{:032x}:1", OWNERS.fetch_add(1, Ordering::Relaxed))
}
