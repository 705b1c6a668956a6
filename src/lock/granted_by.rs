//! What a lease keeps of the answers that it was granted by: little, since it may last for long.

use std::time::Duration;

use super::hold::Hold;
use super::round::{Answered, Round};
use crate::error::{Report, ServerReport, Vote};

pub(super) enum GrantedBy {
    /// The only server, of whose answer no more than this is left to say.
    One {
        round_trip: Option<Duration>,
    },
    Several(Box<Round>),
}

impl GrantedBy {
    /// That of a round that was won.
    pub(super) fn new(round: Round) -> Self {
        match &*round.answers {
            [answered] if !round.is_seized() => {
                Self::One { round_trip: answered.as_ref().and_then(Answered::round_trip) }
            }
            _ => Self::Several(Box::new(round)),
        }
    }

    pub(super) fn report(&self, hold: &Hold) -> Report {
        match self {
            Self::One { round_trip } => {
                let server = hold.participants[0].binding().node.endpoint().address.to_string();
                let vote = Vote::Granted;
                Report { servers: vec![ServerReport { server, vote, round_trip: *round_trip }] }
            }
            Self::Several(round) => round.report(hold),
        }
    }
}
