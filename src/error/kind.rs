/// What caused an [`Error`](crate::Error), and so what to do about it.
///
/// Each kind says which party has to act, and which HTTP status fits a request that failed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The servers are well, and another client holds the lock or waits ahead: 409 (Conflict), or 423
    /// (Locked). Try again when the lock may be free.
    Contended,
    /// Too few servers served: they are down, do not answer in time, cannot serve now, or may not
    /// vote since they restarted. 503 (Service Unavailable), with a
    /// `Retry-After`. No client is known to hold the lock.
    Unavailable,
    /// The lock was granted with too little validity left, and was released: 503 (Service Unavailable). The servers are
    /// slower than the TTL allows: use a longer TTL.
    TooLate,
    /// A server and this client do not accept one another: credentials, a right, a certificate. 500 (Internal Server
    /// Error): an operator has to correct the configuration.
    Auth,
    /// The request is invalid: a name, a TTL, a URL, a key that holds something else. 500 (Internal
    /// Server Error), or 400 (Bad Request) if the caller chose the name. Trying again does not help.
    Misuse,
    /// The lease ended before the work under it, which may not have been exclusive: 500 (Internal
    /// Server Error). Repeat the work only if doing it twice is harmless, or fencing refused it. Or a
    /// [`Ticket`](crate::Ticket) has no lease any more.
    Lost,
    /// The locker was shut down: 503 (Service Unavailable). Another process may serve.
    ShutDown,
}
