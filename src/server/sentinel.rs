//! A server that Sentinels watch over: whichever is the master of its service now.
//!
//! Each Sentinel is listened to, and asked now and then anyway. Which of their words counts,
//! and when, `policy` decides; here they are asked, and the server that was found is gone over to.
//! The one that was left is believed nothing any more, and all leases are renewed with the new one,
//! so that one that it has never heard of is known to be lost.
//!
//! Source: "Guidelines for Redis clients with support for Redis Sentinel" at redis.io/docs/latest.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::time::sleep;

mod inquiry;
mod listening;

use self::inquiry::{Finding, Inquiry};
use self::listening::Sentinel;
use super::endpoint::{Endpoint, Watched};
use super::kin::Kin;
use super::node::{LEASES, Node};
use super::place::{Detour, Directory, Listing, Tasks, Unheard};
use crate::clock;
use crate::net::refusal::ServerError;
use crate::net::transport::Address;
use crate::policy::fitness::Refusal;
use crate::policy::{Backoff, Mastership, SETTLING, Successor};
use crate::race::timeout;

/// Longest time between two questions to the Sentinels where none tells of a change.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The same where they do not tell: a client is not to notice a new master long after the others.
const ASK_EVERY_MUTE: Duration = Duration::from_secs(1);
/// Between two rounds of questions, more or less, so that a fleet does not ask in step.
const ASK_GAP: Backoff =
    Backoff { first: Duration::from_millis(200), longest: Duration::from_millis(200) };

/// See the module's documentation.
pub(crate) struct Service {
    inquiry: Inquiry,
    kin: Kin,
    master: ArcSwap<Node>,
    wanted: Arc<Notify>,
}

impl Service {
    /// Finds the master of a service by its Sentinels; what each of them says, if there is none to be
    /// found.
    pub(crate) async fn find(watched: Watched, kin: Kin) -> Result<Listing, Vec<Unheard>> {
        let Watched { sentinels, service: name, template } = watched;
        let wanted = Arc::new(Notify::new());
        let sentinels: Vec<_> =
            sentinels.into_iter().map(|endpoint| Arc::new(Sentinel::new(endpoint))).collect();
        let mut tasks = Tasks::default();
        for sentinel in &sentinels {
            let listening = Arc::clone(sentinel);
            tasks.start(listening.listen(kin.clone(), Arc::clone(&wanted)));
        }
        let mut mastership = Mastership::new(sentinels.len());
        let inquiry = Inquiry::new(name, sentinels, template, kin.settings.clone());
        let found = loop {
            if let Finding::Found(found) = inquiry.ask(&mut mastership).await? {
                break found;
            }
        };
        mastership.follow(&found);
        // A right that is missing is to be known before it is needed.
        let _ = inquiry.replicas().await;
        let master = start(&inquiry, &kin, &found);
        settle(&master, &found);
        let master = ArcSwap::from_pointee(master);
        let service = Arc::new(Self { inquiry, kin, master, wanted });
        let following = Arc::clone(&service);
        tasks.start(async move { following.follow(mastership).await });
        Ok(Listing::new(service, tasks))
    }

    /// Asks which server is the master when somebody wants to know, or nobody has asked for long.
    async fn follow(&self, mut mastership: Mastership<Address>) {
        // A successor that is not ready yet: it is met again as rarely as any server.
        let mut unready = None;
        loop {
            sleep(ASK_GAP.delay(0, clock::random_bits())).await;
            let is_mute = self.inquiry.sentinels.iter().any(|sentinel| sentinel.is_mute());
            let every = if is_mute { ASK_EVERY_MUTE } else { ASK_EVERY };
            let _ = timeout(every, pin!(self.wanted.notified())).await;
            match self.inquiry.ask(&mut mastership).await {
                Ok(Finding::Found(successor)) if self.move_to(&successor, &mut unready).await => {
                    mastership.follow(&successor);
                }
                Ok(Finding::Found(_) | Finding::Changing) => self.look_again(),
                Ok(Finding::Unchanged) => unready = None,
                // With no answer the master stays the same.
                Err(_) => {}
            }
        }
    }

    /// Goes over to this server, if it is a master indeed, and is ready for leases.
    async fn move_to(&self, successor: &Successor<Address>, unready: &mut Option<Node>) -> bool {
        let known = unready.take().filter(|node| node.endpoint().address == successor.master);
        let promoted = known.unwrap_or_else(|| start(&self.inquiry, &self.kin, successor));
        if promoted.tried().await.is_err() {
            promoted.want(LEASES);
            *unready = Some(promoted);
            return false;
        }
        if let Err(Refusal::Unfit(_)) = promoted.check(LEASES) {
            *unready = Some(promoted);
            return false;
        }
        settle(&promoted, successor);
        let left = self.master.swap(Arc::new(promoted));
        left.retire();
        self.kin.watchers.moved();
        true
    }
}

fn start(inquiry: &Inquiry, kin: &Kin, successor: &Successor<Address>) -> Node {
    let address = successor.master.clone();
    Node::start(0, Endpoint { address, ..inquiry.template.clone() }, kin.clone())
}

/// Where clients may still follow another master, nothing new is granted until they have noticed.
fn settle(master: &Node, successor: &Successor<Address>) {
    if successor.has_rival {
        master.settle(clock::now().after(SETTLING));
    }
}

impl Directory for Service {
    fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    fn serves(&self, _slot: u16) -> Arc<Node> {
        self.master.load_full()
    }

    /// A server that is no master any more does not name the new one.
    fn detour(&self, _error: &ServerError, _asked: &Address) -> Option<Detour> {
        self.look_again();
        None
    }

    fn look_again(&self) {
        self.wanted.notify_one();
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        vec![self.master.load_full()]
    }

    fn may_forget(&self) -> bool {
        true
    }

    fn refused(&self) -> Vec<(Address, ServerError)> {
        let of = |sentinel: &Arc<Sentinel>| {
            let address = sentinel.endpoint.address.clone();
            sentinel.refused().map(move |error| (address.clone(), error)).collect::<Vec<_>>()
        };
        self.inquiry.sentinels.iter().flat_map(of).collect()
    }
}
