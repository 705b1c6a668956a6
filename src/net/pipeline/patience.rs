//! How long a reply may stay away, and what is found where one does.

use std::time::Duration;

use crate::net::outcome::Fault;

/// What a sweep found.
#[derive(Debug)]
pub enum Sweep {
    /// Commands are under way: sweep again.
    Busy,
    /// Commands are under way, and the first of them is late: a seal was pushed behind them, to be
    /// committed. Sweep again.
    Asks,
    /// Nothing was under way since the last sweep: no more sweeps until a push asks for them.
    Idle,
    /// No reply came for too long.
    Dead(Fault),
}

/// How long the first of those that wait may go without a reply, or a part of one.
///
/// A reply that was lost with nothing sent behind it looks like a server that is slow. So a late server
/// is asked for a seal: a server that answers that, and not what was before, has lost a reply, which
/// ends the connection; a server that is only slow answers both. No answer at all is borne for
/// longer, because all that is in flight is unknown when a connection ends, and a server that has
/// paused is not helped by all its clients coming again. But one that sends pushes meanwhile has not
/// paused.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Then it is late: the connection ends if pushes came meanwhile, else the server is asked.
    pub until_late: Duration,
    /// Then the connection ends.
    pub until_dead: Duration,
    /// How long the server's first reply took.
    pub greeting: Duration,
}

impl Patience {
    /// For ever.
    pub const ENDLESS: Self =
        Self { until_late: Duration::MAX, until_dead: Duration::MAX, greeting: Duration::ZERO };

    /// Why a command has no reply that was waited for `within` this time.
    pub(super) fn late(self, within: Duration) -> Fault {
        Fault::of_late(within, self.greeting)
    }
}
