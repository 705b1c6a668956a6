//! A link with known bugs: what proves a reply, and what ends a connection. See `policy::mutants`.

use bytes::BytesMut;
use leasehold_resp::Frame;

use super::{Fault, Link, Place, Reply, Standing};
use crate::policy::Moment;
use crate::policy::mutants::Mutant;

impl Link {
    /// Whether something that came is passed over.
    pub(super) fn is_let_pass(&mut self, frame: &Frame, now: Moment) -> bool {
        if let (true, true, Some(slot)) =
            (frame.is_push(), Mutant::PushIsASignOfLife.is_on(), self.slots.front_mut())
        {
            slot.sent_at = now;
        }
        !frame.is_push() && self.slots.is_empty() && Mutant::StrayReplyIsDropped.is_on()
    }
}

/// What a reply in its place says of those before it.
pub(super) fn standing(
    place: Place,
    frame: &Frame,
    standing: Result<Standing, Fault>,
) -> Result<Standing, Fault> {
    let is_stamped = matches!(place, Place::Stamped(_));
    let is_grant = matches!(frame.value(), Frame::Simple(_));
    match standing {
        Err(Fault::Misplaced)
            if is_stamped && Mutant::StampNotCompared.is_on() && has_text_first(frame) =>
        {
            Ok(Standing::Proves)
        }
        Err(Fault::Misplaced) if Mutant::MisplacedReplyEndsNothing.is_on() => Ok(Standing::Pends),
        Ok(_) if frame.error().is_some() && Mutant::ErrorNotProved.is_on() => Ok(Standing::Proves),
        Ok(_) if is_grant && Mutant::SealNotWaitedFor.is_on() => Ok(Standing::Proves),
        standing => standing,
    }
}

/// Whether something came, where it was no reason to end the connection.
pub(super) fn heard(
    heard: Result<bool, Fault>,
    bytes: &mut BytesMut,
    proved: &[Reply],
) -> Result<bool, Fault> {
    match heard {
        Err(Fault::Misplaced) if Mutant::BelievedUpToTheMisplaced.is_on() && !proved.is_empty() => {
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
