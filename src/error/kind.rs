/// What an [`Error`](crate::Error) is at bottom: what stood in the way, whoever's time ran out.
///
/// It is there for the one question that a service has to answer: whose turn is it to do something?
/// Each kind says what that is, and which HTTP status fits a request that failed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The servers are well, and another holds the lock or is before this caller in line: 409
    /// (Conflict), or 423 (Locked). Try again once it may be free.
    Contended,
    /// Too few servers served: they are down, do not answer in time, cannot serve now, may not vote
    /// since they restarted, or lack replicas that acknowledge. 503 (Service Unavailable), with a
    /// `Retry-After`. Nobody is known to hold the lock.
    Unavailable,
    /// The lock was granted so slowly that too little of its validity was left, and was given back:
    /// 503 (Service Unavailable). The servers are slower than the TTL allows: make it longer.
    TooLate,
    /// A server and this client do not accept one another: credentials, a right, a certificate. 500
    /// (Internal Server Error); somebody has to mend the set-up.
    Auth,
    /// What was asked for cannot be: a name, a TTL, a URL, a key that holds something else. 500
    /// (Internal Server Error), or 400 (Bad Request) where the caller chose the name. Trying again
    /// does not help.
    Misuse,
    /// The lease ended before the work under it did, which may not have been alone: 500 (Internal
    /// Server Error). Repeat the work only if doing it twice is harmless, or fencing refused it.
    Lost,
    /// The locker was shut down: 503 (Service Unavailable). Another process may serve.
    ShutDown,
}
