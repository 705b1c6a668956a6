use super::Moment;

/// The largest token: Lua and JavaScript hold integers exactly only below 2^53.
const TOKEN_MAX: u64 = (1 << 53) - 1;
/// The smallest token that one server alone issues: a clock in microseconds that has run for a second.
/// The numbers that answer other questions are below.
const TOKEN_MIN: u64 = 1_000_000;

/// No server's clock is before this in microseconds, the year 2020: what a counter has that began again
/// is far below.
const DRAWN_MIN: u64 = 1_577_836_800_000_000;
pub(super) const SECOND_MICROS: u64 = 1_000_000;
pub(super) const DAY_MICROS: u64 = 24 * 3600 * SECOND_MICROS;
/// A token that was drawn from a counter is believed this far from the drawer's own clock, in microseconds.
const DRAWN_OFF_MAX: u64 = DAY_MICROS;

/// The token that one attempt proposes.
///
/// The rules (safety rule 8, `scripts/acquire.lua`):
///
/// 1. A token t is issued to an owner only once q of N servers have accepted t for that owner, in
///    one round of questions; 2q > N.
/// 2. A server accepts t only if t is above its counter for the lock, and raises the counter to t
///    in the same step.
///
/// *Claim.* Issued tokens of one lock are unique, and if one was issued before the acquire of
/// another began, it is the smaller one. *Proof.* Let t be issued to A and u to B. Their quorums
/// share a server s, since 2q > N. By rule 2, s accepted one of them first, and the other only
/// because it was larger: so they differ. If t was issued before B asked, then s had accepted t by
/// then, and accepted u above it: so t < u. ∎
///
/// Nothing in it speaks of clocks, of TTLs, or of the lock's holder. The claim holds as long as s keeps
/// its counter: the quorums share at least 2q - N = k + 1 servers, so k of them may forget. The
/// wall clock only makes a first proposal likely to be large enough, and makes tokens rise over
/// counters that were forgotten after days without use.
///
/// A hand-over is an acquire like any other here: a fresh owner with a ballot of its own, which a
/// server accepts by rule 2, whether it takes the lock from nobody or from the predecessor. A
/// repair sets the lock of an issued token where it is gone. It is no acceptance, and at most
/// raises the counter, to that token: so rule 2 goes on to refuse all that it refused before.
///
/// A server may refuse more than rule 2 asks for: the proof rests on what was accepted alone. So it
/// refuses a proposal that is more than a second ahead of both its clock and its counter (safety rule
/// 16), unless servers led to that proposal: else a client whose clock is far ahead could use up the
/// tokens. An acceptance raises a counter to no more than a second above the counters and clocks that
/// servers have shown.
///
/// One server alone chooses the token where the proposal is not above its counter, or is more than a second
/// off its clock: one more than the counter, or its clock. Then the server is the one that proposes, and the claim holds with
/// q = N = 1. An owner that was outbid proposes again:
/// its second proposal is a ballot of its own, and only what q servers accept in one round counts.
///
/// # A token that is drawn
///
/// One server alone can do without the script (`lock/direct.rs`): the owner takes the lock by `SET NX`,
/// draws its token by `INCRBY fence 1`, and proves by `GET lock`, behind the draw and on the same connection,
/// that the lock is still its own. These are several commands, and others' may come between: a thief takes the
/// lock (`scripts/seize.lua`), or somebody deletes it and another takes it.
///
/// *Claim.* While the counter lives, a number that counts is above the tokens of all that held the lock before
/// its owner, and below those of all that hold it later. *Proof.* An owner's value is written under the
/// lock by its own `SET` alone, and never again once it is gone: no id is used twice. So where `GET` finds that value,
/// with or without the byte 0 that says that somebody waits, nobody else has had the lock between the `SET` and
/// the `GET`. All that held it before got their tokens before the `SET`, hence before the draw; all that hold
/// it later get theirs behind the `GET`, hence behind the draw. The counter only rises: so their tokens are smaller
/// and larger. ∎ Without the `GET` a thief's token t may be followed by the victim's draw of t + 1. Where it finds
/// another value or none, the number is nobody's token and its owner holds nothing: the script is asked.
///
/// Draws that lead to no lease leave gaps. What is left is a counter that does not live, or lives on borrowed time:
///
/// - A counter that is *lost* (evicted, flushed, expired) begins again at 1, far below [`DRAWN_MIN`].
/// - A counter *expires* seven days after a script has set it, and a draw does not renew that. So a
///   draw is believed only up to [`DRAWN_OFF_MAX`] from the drawer's own clock. That clock goes on and
///   the counter hardly does (it would take a million draws a second): after two days at most the
///   drawer asks the script, which sets the counter again.
/// - A counter that is *set back* (a server that begins with an old snapshot, a replica that is
///   promoted and had not heard all) looks like one that is well. Where the server's connections end with
///   that, it is enough that a name is drawn for on a connection only once the script has accepted a token
///   for it on that connection: this proposes the clock, as ever, which has moved on past all that was
///   drawn before.
/// - A server that is *demoted and promoted again* may have an older counter too, and closes no
///   connections. So the right to draw for a name lapses a second after its last use ([`Tick`]), judged when the
///   answer is there; and it ends at once, for all names of the connection, where the server refuses anything there
///   because it is a replica (`READONLY`) or does not serve the key (`MOVED`): that comes ahead of the replies to
///   all that it carries out once it rules again.
///
/// In each case a token is given out only once the script has accepted one: a token that is not believed is
/// never seen by anybody. `policy/model/draw.rs` searches this, and finds a breach without each of the rules.
///
/// Not covered are clocks of many drawers that are wrong by different days, one after the other, so
/// that each believes the counter in its turn until it expires, with a server's clock that was
/// set back meanwhile; a server that is demoted, loses what it knew, and is promoted between two uses that are
/// less than a second apart, while nothing that it refuses comes over the connection; and a counter that is set
/// back behind the connections' backs: by hand, or by a proxy that keeps them while the server behind it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    proposal: u64,
    /// Servers led to it, by a counter or a clock, and not the clock of this process.
    is_outbid: bool,
}

impl Ballot {
    /// A proposal from the wall clock in microseconds. Two of one process may be the same: replies are
    /// told apart by their stamps, and a count of proposals would keep a clock's jump ahead for good.
    pub(crate) fn new(wall_micros: u64) -> Self {
        Self { proposal: wall_micros.clamp(1, TOKEN_MAX), is_outbid: false }
    }

    /// The next proposal, above a token that a server has accepted already.
    pub(crate) fn above(self, counter: u64) -> Self {
        let next = counter.saturating_add(1).min(TOKEN_MAX);
        if next <= self.proposal { self } else { Self { proposal: next, is_outbid: true } }
    }

    /// The next proposal, no further ahead than a server's clock, in microseconds, that called the one
    /// before it too far ahead.
    pub(crate) fn within(self, clock: u64) -> Self {
        let proposal = self.proposal.min(clock).max(1);
        Self { proposal, is_outbid: true }
    }

    /// The same, once more: a second question has to propose a larger token.
    pub(crate) fn again(self) -> Self {
        Self { proposal: (self.proposal + 1).min(TOKEN_MAX), ..self }
    }

    /// For a token that servers have chosen already: the same from all.
    pub(crate) fn at(token: u64) -> Self {
        Self { proposal: token.min(TOKEN_MAX), is_outbid: true }
    }

    /// Whether servers led to the proposal: then they accept it however far it is ahead of their clocks.
    pub(crate) fn is_outbid(self) -> bool {
        self.is_outbid
    }

    pub(crate) fn proposal(self) -> u64 {
        self.proposal
    }

    /// Whether `token`, which was drawn from a counter, is of a counter that lives: see above.
    pub(crate) fn believes(self, token: u64) -> bool {
        token >= DRAWN_MIN && token.abs_diff(self.proposal) <= DRAWN_OFF_MAX
    }

    /// Whether `token`, as servers say that they issued it, can answer this proposal: the proposal itself,
    /// unless servers choose the token.
    pub(crate) fn accepts(self, token: u64, servers_choose: bool) -> bool {
        if servers_choose {
            (TOKEN_MIN..=TOKEN_MAX).contains(&token)
        } else {
            token == self.proposal
        }
    }
}

/// Half a second of a clock: when a right to draw was used last.
///
/// A use counts from before it was asked for. In its own tick and in the next one it is less than a second ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tick(u64);

const TICK_NANOS: u64 = 500_000_000;

impl Tick {
    pub(crate) fn of(now: Moment) -> Self {
        Self(now.as_nanos() / TICK_NANOS)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// Whether a right that was used in this tick is still good at `now`.
    pub(crate) fn lasts_to(self, now: Moment) -> bool {
        Self::of(now).0 <= self.0 + 1
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_right_lapses_within_a_second_of_its_last_use() {
        let moment = |millis| Moment::default().after(Duration::from_millis(millis));
        for used in [0, 499, 500, 999, 86_400_250] {
            let tick = Tick::of(moment(used));
            assert!(tick.lasts_to(moment(used + 500)), "{used}");
            assert!(!tick.lasts_to(moment(used + 1000)), "{used}");
            assert_eq!(Tick::of(moment(used + 500)).before(), tick);
        }
    }

    #[test]
    fn a_proposal_follows_the_wall_clock() {
        assert_eq!(Ballot::new(1_700_000_000_000_000).proposal(), 1_700_000_000_000_000);
    }

    #[test]
    fn a_ballot_that_was_outbid_proposes_one_more_and_never_less_than_before() {
        assert_eq!(Ballot::new(100).above(100).proposal(), 101);
        assert_eq!(Ballot::new(100).above(5).proposal(), 100);
        assert_eq!(Ballot::new(100).above(u64::MAX).proposal(), TOKEN_MAX);
    }

    #[test]
    fn a_broken_wall_clock_never_makes_a_token_that_a_script_would_round() {
        assert_eq!(Ballot::new(u64::MAX).proposal(), TOKEN_MAX);
        assert_eq!(Ballot::new(0).proposal(), 1);
    }

    #[test]
    fn one_server_alone_chooses_the_token_and_several_accept_what_was_proposed() {
        let ballot = Ballot::new(1_000_100);
        for token in [1_000_099, 1_000_100, 1_000_101] {
            assert!(ballot.accepts(token, true));
            assert_eq!(ballot.accepts(token, false), token == 1_000_100);
        }
        assert!(!ballot.accepts(1, true));
        assert!(!ballot.accepts(1 << 53, true));
    }

    #[test]
    fn a_token_that_was_drawn_has_to_be_of_this_time() {
        let now = 1_763_800_000_000_000;
        let ballot = Ballot::new(now);
        for near in [now - DRAWN_OFF_MAX, now, now + DRAWN_OFF_MAX] {
            assert!(ballot.believes(near), "{near}");
        }
        for far in [0, 1, 2, now - DRAWN_OFF_MAX - 1, now + DRAWN_OFF_MAX + 1, 1 << 53, u64::MAX] {
            assert!(!ballot.believes(far), "{far}");
        }
        // Of a clock that has never been set, or is set back to its beginning.
        assert!(!Ballot::new(0).believes(1) && !Ballot::new(DRAWN_MIN).believes(DRAWN_MIN - 1));
    }

    /// Safety rule 16: a clock that is far ahead harms nobody else.
    #[test]
    fn a_proposal_that_is_too_far_ahead_gives_way_to_a_servers_clock_and_to_counters() {
        let ballot = Ballot::new(u64::MAX);
        assert!(!ballot.is_outbid());
        let bounded = ballot.within(500);
        assert_eq!((bounded.proposal(), bounded.is_outbid()), (500, true));
        assert_eq!(bounded.above(700).proposal(), 701, "a counter that is ahead locks nobody out");
        assert!(!Ballot::new(100).above(5).is_outbid(), "it is still the clock's");
        assert!(Ballot::new(100).above(100).is_outbid());
        assert!(!Ballot::new(100).again().is_outbid());
        assert_eq!(Ballot::new(100).again().proposal(), 101);
    }
}
