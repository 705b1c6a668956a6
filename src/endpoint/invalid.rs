//! What can be wrong with a URL.

use thiserror::Error;

use crate::policy::parts::{lower, split};

const SCHEMES: &str = "redis://, redis+unix://, redis-cluster:// or redis-sentinel://, or for TLS \
                       rediss://, rediss-cluster:// or rediss-sentinel:// (or with valkey in the \
                       place of redis)";

/// Why a text is no [`Target`](super::Target).
///
/// The messages quote nothing of the URL but its scheme: in a mistyped URL a piece of the password
/// can stand where the host, the port, the path or a parameter belongs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidEndpoint {
    /// No `://`.
    #[error("the URL has no scheme: it should begin with {}", SCHEMES)]
    MissingScheme,
    /// A scheme of no supported server.
    #[error("the URL's scheme {0}:// is unknown: it should be {schemes}", schemes = SCHEMES)]
    UnknownScheme(String),
    /// A scheme of servers that this build leaves out.
    #[cfg(not(all(feature = "cluster", feature = "sentinel")))]
    #[error("the URL leads to {what}: build leasehold with the feature `{feature}`")]
    LeftOut {
        /// The kind of server.
        what: &'static str,
        /// The feature to turn on.
        feature: &'static str,
    },
    /// Text before `://` that is no scheme, and may be a secret.
    #[error("the URL's scheme is malformed: it should be {}", SCHEMES)]
    MalformedScheme,
    /// A Unix socket on a system without them.
    #[cfg(not(unix))]
    #[error("redis+unix:// needs Unix sockets, which this system lacks: use redis://")]
    UnixUnsupported,
    /// A space, a line break, a NUL or the like.
    #[error(
        "the URL contains a space, a line break, a NUL or another control character (at its end, \
         perhaps): remove it, or percent-encode it, such as %20 for a space in a password"
    )]
    Unprintable,
    /// An `@` behind the first `/`, `?` or `#`.
    #[error(
        "the URL has an '@' after its first '/', '?' or '#': in a user name or password write \
         these as %2F, %3F and %23, and an '@' in a socket path or service name as %40"
    )]
    UnencodedDelimiter,
    /// A `#`.
    #[error("the URL has a '#', which begins nothing here: in a password write it as %23")]
    Fragment,
    /// An `@` with no password before it.
    #[error(
        "a password is missing before the URL's '@': write user:password@, or :password@ for the \
         server's default user"
    )]
    MissingPassword,
    /// A `%` without two hexadecimal digits.
    #[error("the URL's {0} has a '%' without two hexadecimal digits: write a '%' itself as %25")]
    Escape(Part),
    /// A user name or password that is no text.
    #[error("the URL's {0} is not UTF-8 once its percent escapes are decoded")]
    NotUtf8(Part),
    /// Nothing between `://` or `@` and the port or path.
    #[error("the URL has no host: write redis://host:port")]
    MissingHost,
    /// A comma where one host belongs.
    #[error(
        "the URL has a ',' in its host: only redis-cluster:// and redis-sentinel:// take a list, \
         as in redis-cluster://host:port,host:port (and if this is a password, an '@' is missing \
         between it and the host)"
    )]
    UnexpectedList,
    /// Nothing between two commas, or before or behind one.
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    #[error(
        "the URL's list of hosts has an empty place: write host:port,host:port with one comma \
         between two hosts, and none before the first or behind the last"
    )]
    GapInList,
    /// The same host and port again.
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    #[error("the URL's list has the same host and port more than once: name each only once")]
    HostTwice,
    /// An `@` or a comma in the login before a list of hosts.
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    #[error(
        "the URL's user and password stand once, before the list of hosts, as in \
         user:password@host:port,host:port: in them write a ',' as %2C and an '@' as %40"
    )]
    AmbiguousLogin,
    /// A character that no host name has.
    #[error(
        "the URL's host has a character that no host name has: write redis://host:port, with any \
         such character of a password percent-encoded and an '@' before the host"
    )]
    Host,
    /// Brackets around something else, or an IPv6 address without them.
    #[error("the URL's host is no IPv6 address in brackets: write one as redis://[::1]:6379")]
    Ipv6,
    /// Not a port.
    #[error(
        "the URL's port is not a number from 1 to 65535: write redis://host:6379 (and if this is \
         a password, an '@' is missing between it and the host)"
    )]
    Port,
    /// Not a database.
    #[error("the URL's database is not a whole number: write redis://host:port/2 or ?db=2")]
    Database,
    /// Two databases.
    #[error("the URL names a database more than once: write /2 or ?db=2, not both")]
    DatabaseTwice,
    /// A parameter of other clients.
    #[error("the URL has the query parameter {name}: {cure}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// What to write instead.
        cure: &'static str,
    },
    /// An unknown parameter.
    #[error(
        "the URL has an unknown query parameter: there are only db, as in ?db=2, and protocol=3"
    )]
    UnknownParameter,
    /// A Sentinel URL without a service.
    #[cfg(feature = "sentinel")]
    #[error("the URL has no service name: write redis-sentinel://host:port,host:port/service")]
    MissingService,
    /// A database behind the service, or a service with a slash in it.
    #[cfg(feature = "sentinel")]
    #[error(
        "the URL has a '/' behind or in its service name: write the database as in /service?db=2, \
         and a '/' of the name as %2F"
    )]
    SlashInService,
    /// A Unix URL without a path.
    #[error("the URL has no socket path: write redis+unix:///path/to/redis.sock")]
    MissingSocketPath,
    /// A Unix URL with two slashes, or a password that holds a slash.
    #[error(
        "the URL of a Unix socket has no host: write redis+unix:///path/to/redis.sock with three \
         slashes, or redis+unix://user:password@/path/to/redis.sock with any '/' of the password \
         as %2F"
    )]
    HostBeforeSocketPath,
    /// `%00` in a path.
    #[error("the URL's socket path contains a NUL (%00), which no path can")]
    NulInSocketPath,
}

const TIMES: &str = "leave it out, and give times by Builder::connect_timeout and Builder::command_timeout (or \
                     --command-timeout)";
const TLS: &str =
    "leave it out, and write rediss:// for TLS, with certificates by Builder::tls (or --ca)";
const ONE_CONNECTION: &str = "leave it out: one connection to each server carries all commands";
const LOGIN: &str = "leave it out, and write user:password@ before the host, or :password@";

/// Parameters of other clients, and what to write instead.
const FOREIGN: [(&str, &str); 8] = [
    (
        "timeout connect_timeout connection_timeout socket_timeout socket_connect_timeout dial_timeout read_timeout \
         write_timeout connectTimeout commandTimeout",
        TIMES,
    ),
    ("ssl tls ssl_cert_reqs ssl_ca_certs ssl_check_hostname skip_verify verifyPeer", TLS),
    ("pool_size max_connections", ONE_CONNECTION),
    ("user username password", LOGIN),
    ("protocol", "leave it out, or write protocol=3: RESP3 is spoken where the server does"),
    ("client_name clientName", "leave it out: connections are called leasehold"),
    ("sentinelMasterId", "write redis-sentinel://host:port/service"),
    ("addr", "write redis-cluster://host:port,host:port"),
];

impl InvalidEndpoint {
    /// The error for an unknown parameter.
    pub(crate) fn parameter(name: &str) -> Self {
        for (names, cure) in &FOREIGN {
            if let Some(name) = split(names, " ").find(|known| *known == name) {
                return Self::Parameter { name, cure };
            }
        }
        Self::UnknownParameter
    }

    /// The error for an unknown scheme.
    pub(super) fn scheme(scheme: &str) -> Self {
        let is_letter =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        match lower(scheme).as_str() {
            #[cfg(not(unix))]
            "redis+unix" | "valkey+unix" | "unix" => Self::UnixUnsupported,
            // Anything but letters may be a user and password before an "://" of their own.
            name if !name.is_empty() && name.bytes().all(is_letter) => {
                Self::UnknownScheme(name.to_owned())
            }
            _ => Self::MalformedScheme,
        }
    }
}

/// The percent-encoded parts of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Before the `:` that precedes the `@`.
    User,
    /// Between that `:` and the `@`.
    Password,
    /// Of a Unix socket.
    SocketPath,
    /// The Sentinels' name for the service.
    #[cfg(feature = "sentinel")]
    Service,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::User => "user name",
            Self::Password => "password",
            Self::SocketPath => "socket path",
            #[cfg(feature = "sentinel")]
            Self::Service => "service name",
        })
    }
}
