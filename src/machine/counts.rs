//! What has happened: as numbers, which a driver adds to its own, and as events, for those that want to be told.

use std::time::Duration;

use bytes::Bytes;

use super::ids::LeaseId;
use crate::names::Names;
use crate::policy::Loss;

/// What has happened since it was taken last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Attempts that were put to servers; an entry in a queue is one.
    pub(crate) attempts: u32,
    /// Attempts that were sent, of which some server may or may not have carried out its part.
    pub(crate) unknown: u32,
    /// Servers that had lost a lease and have it again.
    pub(crate) repaired: u32,
    /// Requests that went on because a server told something.
    pub(crate) woken: u32,
    /// Leases more, or less, that are held.
    pub(crate) held: i32,
    /// Requests more, or less, that wait.
    pub(crate) waiting: i32,
}

/// What happened to a lease, a request or a login.
#[derive(Debug)]
pub(crate) enum Event {
    /// An attempt was refused, since another holds the lock.
    Contended(Names),
    /// A renewal begins: only told where somebody wants to know.
    Renews(LeaseId),
    /// With the time from the question to the verdict.
    Renewed(LeaseId, Names, Duration),
    RenewalFailed(LeaseId, Names),
    Lost(LeaseId, Names, Loss),
    /// A connection has logged in again.
    LoginRenewed(usize),
    /// The server refused that.
    LoginFailed(usize, Bytes),
    /// A primary reigns for this time, and grants nothing new for so much longer.
    #[cfg(any(test, feature = "grace"))]
    Reigns {
        server: usize,
        since: Duration,
        left: Duration,
    },
    /// A server is left out of attempts, or not any more.
    Breaker {
        server: usize,
        is_open: bool,
    },
}

#[cfg(test)]
mod tests {
    use leasehold_resp::Frame;

    use super::super::tests::{Bench, acquire, bulk, greeting, request, stamp};
    use super::super::{Effect, Fault};
    use super::*;
    use crate::policy::Wait;

    fn grant(bench: &mut Bench) {
        bench.answer(0, |command| vec![stamp(command)]);
    }

    fn told(bench: &mut Bench) -> Vec<Effect> {
        bench.pass(Duration::ZERO);
        bench.effects.append(bench.machine.take_effects());
        let effects = std::mem::take(&mut bench.effects);
        effects.into_iter().filter(|effect| matches!(effect, Effect::Tell(_))).collect()
    }

    #[test]
    fn renewals_that_come_to_something_and_to_nothing_are_told_and_those_of_the_holder_are_not() {
        let mut bench = Bench::connected(1);
        let id = acquire(&mut bench, b"a");
        grant(&mut bench);
        assert_eq!(
            bench.machine.take_counts(),
            Counts { attempts: 1, held: 1, ..Counts::default() }
        );
        bench.machine.extend(id, bench.now);
        grant(&mut bench);
        assert!(told(&mut bench).is_empty());
        bench.pass(Duration::from_millis(3400));
        grant(&mut bench);
        let renewed = told(&mut bench);
        let [Effect::Tell(Event::Renews(begun)), Effect::Tell(Event::Renewed(done, ..))] =
            &renewed[..]
        else {
            panic!("{renewed:?}")
        };
        assert_eq!((*begun, *done), (id, id));
        bench.pass(Duration::from_millis(3400));
        bench.said(0);
        assert!(matches!(&told(&mut bench)[..], [Effect::Tell(Event::Renews(_))]));
        // The answer is late.
        bench.pass(Duration::from_millis(600));
        assert!(matches!(&told(&mut bench)[..], [Effect::Tell(Event::RenewalFailed(..)), ..]));
        bench.machine.release(id, bench.now);
        assert_eq!(bench.machine.take_counts(), Counts { held: -1, ..Counts::default() });
    }

    #[test]
    fn a_refused_request_is_contended_and_waits_until_it_is_forgotten() {
        let mut bench = Bench::connected(1);
        bench.is_told = true;
        let id = request(&mut bench, b"a", Wait::Forever);
        bench.answer(0, |command| {
            let holder = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
            match &command[0][..] {
                b"EVALSHA" => {
                    vec![Frame::Array([stamp(command)].into_iter().chain(holder).collect())]
                }
                b"SUBSCRIBE" => Vec::new(),
                _ => vec![greeting(command, "")],
            }
        });
        assert!(matches!(&told(&mut bench)[..], [Effect::Tell(Event::Contended(_))]));
        let Counts { attempts, waiting, woken, .. } = bench.machine.take_counts();
        assert!(attempts >= 1 && (waiting, woken) == (1, 0));
        bench.machine.forget(id, bench.now);
        assert_eq!(bench.machine.take_counts(), Counts { waiting: -1, ..Counts::default() });
    }

    #[test]
    fn an_attempt_whose_connection_ends_is_unknown_and_a_lease_that_ends_is_lost() {
        let mut bench = Bench::connected(1);
        let held = acquire(&mut bench, b"a");
        grant(&mut bench);
        acquire(&mut bench, b"b");
        bench.said(0);
        bench.machine.disconnected(0, Fault::Closed, bench.now);
        let counts = Counts { attempts: 2, unknown: 1, held: 1, ..Counts::default() };
        assert_eq!(bench.machine.take_counts(), counts);
        told(&mut bench);
        bench.pass(Duration::from_secs(10));
        let told = told(&mut bench);
        let is_lost =
            |effect: &Effect| matches!(effect, Effect::Tell(Event::Lost(_, _, Loss::Expired)));
        assert!(told.last().is_some_and(is_lost), "{told:?}");
        assert!(!bench.machine.state(held).unwrap().is_held());
        assert_eq!(bench.machine.take_counts().held, -1);
    }
}
