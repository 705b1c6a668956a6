//! The rules for replies, with known bugs that tests switch on: see `policy::mutants`.

#[path = "rules.rs"]
mod real;

use bytes::BytesMut;
use leasehold_resp::Frame;

pub(super) use self::real::Standing;

use crate::policy::Moment;
use crate::policy::mutants::Mutant;

pub(super) fn is_of_round(present: u32, round: u32) -> bool {
    real::is_of_round(present, round) || Mutant::LateReplyToTheNext.is_on()
}

pub(super) fn says_all(is_first: bool) -> bool {
    real::says_all(is_first) || Mutant::LastRefusalSpeaksForAll.is_on()
}

pub(super) fn may_be_granted() -> bool {
    real::may_be_granted() && !Mutant::LateMeansNothingGranted.is_on()
}

pub(super) fn goes_again(may_serve: bool) -> bool {
    real::goes_again(may_serve) && !Mutant::RefusedReleaseForgotten.is_on()
}

/// Also with few commands, which simulations have.
pub(super) fn gathers(in_flight: usize) -> bool {
    real::gathers(in_flight) || in_flight >= 2
}

pub(super) fn is_freed(is_so: bool) -> bool {
    real::is_freed(is_so) || Mutant::GatheredCountsAsFreed.is_on()
}

pub(super) fn is_granted(grants: bool) -> bool {
    real::is_granted(grants) || Mutant::GrantIsBelievedLate.is_on()
}

pub(super) fn hands_on(is_open: bool) -> bool {
    real::hands_on(is_open) || Mutant::HandsOnInTheGrace.is_on()
}

pub(super) fn is_gone(is_heard: bool) -> bool {
    real::is_gone(is_heard) || Mutant::GoneIsBelievedUnsure.is_on()
}

pub(super) fn share_a_node<T: PartialEq>(some: &[T], others: &[T]) -> bool {
    real::share_a_node(some, others) || Mutant::AnyClusterIsOurs.is_on()
}

pub(super) fn is_proved(is_its: bool) -> bool {
    real::is_proved(is_its) || Mutant::DrawnWithoutProof.is_on()
}

pub(super) fn waited_since(sent_at: Moment, now: Moment) -> Moment {
    if Mutant::PushIsASignOfLife.is_on() { now } else { real::waited_since(sent_at, now) }
}

pub(super) fn is_let_pass() -> bool {
    real::is_let_pass() || Mutant::StrayReplyIsDropped.is_on()
}

pub(super) fn standing<F>(
    is_of_stamp: bool,
    frame: &Frame,
    standing: Result<Standing, F>,
    is_wrong: bool,
) -> Result<Standing, F> {
    let is_grant = matches!(frame.value(), Frame::Simple(_));
    match real::standing(is_of_stamp, frame, standing, is_wrong) {
        Err(_)
            if is_of_stamp
                && is_wrong
                && Mutant::StampNotCompared.is_on()
                && has_text_first(frame) =>
        {
            Ok(Standing::Proves)
        }
        Err(_) if is_wrong && Mutant::MisplacedReplyEndsNothing.is_on() => Ok(Standing::Pends),
        Ok(_) if frame.error().is_some() && Mutant::ErrorNotProved.is_on() => Ok(Standing::Proves),
        Ok(_) if is_grant && Mutant::SealNotWaitedFor.is_on() => Ok(Standing::Proves),
        standing => standing,
    }
}

pub(super) fn heard<F>(
    heard: Result<bool, F>,
    bytes: &mut BytesMut,
    is_behind_proved: bool,
) -> Result<bool, F> {
    match real::heard(heard, bytes, is_behind_proved) {
        Err(_) if Mutant::BelievedUpToTheMisplaced.is_on() && is_behind_proved => {
            bytes.clear();
            Ok(false)
        }
        heard => heard,
    }
}

/// Whether there is text where a script's reply has its stamp.
fn has_text_first(frame: &Frame) -> bool {
    match frame.value() {
        Frame::Bulk(_) => true,
        Frame::Array(items) => matches!(items.first(), Some(Frame::Bulk(_))),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use crate::machine::fuzzed::drive;
    use crate::machine::lease::Phase;
    use crate::machine::tests::{Bench, ROUTING, acquire, error, greeting, settings};
    use crate::machine::{Login, Settings};
    use crate::policy::mutants::{self, Mutant};

    /// Whether a request is still open behind an error that no other reply has proved.
    fn is_open_behind_an_error() -> bool {
        let mut bench = Bench::connected(1);
        let id = acquire(&mut bench, b"a");
        bench.said(0);
        bench.reply(0, &error("NOPERM of a test"));
        matches!(bench.machine.leases.get(id).unwrap().phase, Phase::Asking)
    }

    #[test]
    fn an_error_without_proof_is_not_believed() {
        assert!(is_open_behind_an_error());
        mutants::set(Some(Mutant::ErrorNotProved));
        let is_open = is_open_behind_an_error();
        mutants::set(None);
        assert!(!is_open);
    }

    /// Whether a server serves at the address of a node that names no node of the Cluster.
    fn is_another_cluster_served() -> bool {
        let nodes_of = |_: &_| Some(vec![[b'2'; 40]]);
        let mut bench = Bench::new(1, Settings { nodes_of: Some(nodes_of), ..settings(1) });
        bench.machine.routes_by(ROUTING);
        bench.machine.route(&["0".into()], &[[b'1'; 40]], &|_| Some(0), bench.now);
        bench.dial(0, Login::default());
        bench.answer(0, |command| vec![greeting(command, "")]);
        bench.machine.serves(0)
    }

    #[test]
    fn a_node_of_another_cluster_does_not_serve() {
        assert!(!is_another_cluster_served());
        mutants::set(Some(Mutant::AnyClusterIsOurs));
        let is_served = is_another_cluster_served();
        mutants::set(None);
        assert!(is_served);
    }

    #[test]
    fn a_grant_without_proof_is_found() {
        // One server, a plain lock, and the bytes of its grant with no proof behind them.
        let unproved = b"\x00\x01\x00\x09\x05+OK\r\n";
        drive(unproved);
        mutants::set(Some(Mutant::SealNotWaitedFor));
        let found = catch_unwind(|| drive(unproved));
        mutants::set(None);
        assert!(found.is_err());
    }
}
