//! Known bugs of lock libraries, each behind a switch: the checks have to notice every one of them.
//!
//! In tests, the library gets its machines from the modules here: each has the real machine inside, and
//! alters what goes into it or comes out of it while a bug is on.

pub(crate) mod attempt;
pub(crate) mod grace;
pub(crate) mod limit;
#[cfg(feature = "sentinel")]
pub(crate) mod mastership;
pub(crate) mod redelivery;
pub(crate) mod relay;
pub(crate) mod renewal;
pub(crate) mod restart;
pub(crate) mod validity;
pub(crate) mod waiter;

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    ValidityFromTheReply,
    NoDrift,
    OwnerReused,
    ReleasedOnlyWhereGranted,
    ReleasedOverAnotherConnection,
    ExtensionRecreatesALostKey,
    ExtensionShortens,
    ExtensionWithoutAQuorum,
    WallClockDeadline,
    ClockStopsInSuspension,
    CountersPerServer,
    MaximumWrittenBackUnowned,
    QuarantineShort,
    UptimeUnsigned,
    LossWaitsForTheServer,
    RenewalOutlivesRelease,
    TimedOutCountsAsHeld,
    PushMatchedAsReply,
    LateReplyToTheNext,
    RefusedReleaseForgotten,
    GatheredCountsAsFreed,
    AnAnswerSettlesEveryRelease,
    LimitOnlyBetweenTries,
    ExtensionKeepsALaterEnd,
    AnyClockIsBelieved,
    LateMeansNothingGranted,
    StampNotCompared,
    SealNotWaitedFor,
    StrayReplyIsDropped,
    MisplacedReplyEndsNothing,
    BelievedUpToTheMisplaced,
    ErrorNotProved,
    PushIsASignOfLife,
    MintedByTheCounterAlone,
    DrawnWithoutTheLock,
    DrawnWithoutProof,
    ReleasedWhoeverHasIt,
    RestIsForgotten,
    LockDelayIsForgotten,
    LostGuardEndsTheDelay,
    TicketFromAnybody,
    StealTakesAnyToken,
    CountsFromThePush,
    AnyTokenIsPushed,
    QueueIsNotLeft,
    DeadEndTheSearch,
    PushNamesNobody,
    PermitsEndByTheCallersTtl,
    UpgradeBesideReaders,
    UpgradeWaits,
    EveryShareIsRenewed,
    ReadersNeedOneVote,
    ReadersTakeAnyToken,
    PassedOnForAWholeTtl,
    PassedOnBeyondWhatIsAside,
    LastRefusalSpeaksForAll,
    SlotIsForgotten,
    AnyClusterIsOurs,
    WorkedOnBesideAnother,
    ResultLastsForATtl,
    AcceptedIsForgottenAtAPromise,
    PartyCountsEachTime,
    ArrivalsOutliveTheirGeneration,
    SetBackClockRefills,
    // Bugs of `mastership`, which a search has to notice beside the simulation.
    OlderOneReturns,
    OneSentinelIsEnough,
    WatchedIsFollowed,
    NotSettled,
    SilentIsDead,
    RefusedIsDead,
    UnreachableSuccessorIsIgnored,
    FormerMasterIsFollowed,
    NewcomerGrantsAtOnce,
    // Bugs of the grace after a failover, which a search has to notice, too.
    GrantsAtOnceAfterAFailover,
    GraceIsNoLongerThanLeases,
    GraceCountsFromTheQuestion,
    LateHoldersAreHeard,
    StaleKeysStay,
    AnyHolderTakesOver,
    HandsOnInTheGrace,
    GrantIsBelievedLate,
    RunAloneIsTheReign,
    EachBeginsTheReign,
    ReplicaIsMet,
    ReignNeverLapses,
    AnyUseRenewsTheReign,
    GoneIsBelievedUnsure,
    TokenIsNotAboveThePredecessors,
}

impl Mutant {
    /// The bugs that the search of failovers has to notice.
    pub(crate) const OF_SENTINELS: [Self; 9] = [
        Self::OlderOneReturns,
        Self::OneSentinelIsEnough,
        Self::WatchedIsFollowed,
        Self::NotSettled,
        Self::SilentIsDead,
        Self::RefusedIsDead,
        Self::UnreachableSuccessorIsIgnored,
        Self::FormerMasterIsFollowed,
        Self::NewcomerGrantsAtOnce,
    ];

    /// Whether this thread's library has this bug.
    pub(crate) fn is_on(self) -> bool {
        PRESENT.get() == Some(self)
    }
}

thread_local! {
    static PRESENT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// The bug that this thread's library has.
pub(crate) fn present() -> Option<Mutant> {
    PRESENT.get()
}

/// Gives this thread's library a bug, or none.
pub(crate) fn set(mutant: Option<Mutant>) {
    PRESENT.set(mutant);
}
