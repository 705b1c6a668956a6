//! Every error text for a caller of the library, side by side in `tests/texts/errors.txt`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::ErrorKind;
use leasehold_resp::DecodeError;

use super::{Configured, Error, FailureKind, Holder, Kind, Report, ServerReport, Vote};
use crate::api::outcome;
use crate::builder::Builder;
use crate::cluster::map::BadMap;
use crate::endpoint::{InvalidEndpoint, Part};
use crate::error::value::check_label;
use crate::locker::Locker;
use crate::names::InvalidName;
use crate::net::fault::Fault;
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::net::refusal::ServerError;
use crate::net::tls::{InvalidTls, TlsFault};
use crate::policy::fitness::Unfit;
use crate::policy::{Bounds, Loss, Quorum, Retry, Term, check_coexistence};
use crate::shutdown::{Shutdown, Unreleased};
use crate::support::texts;

/// The text of each variant. A variant that is not listed does not compile.
macro_rules! each {
    ($($pattern:pat => $value:expr),+ $(,)?) => {{
        let values = [$($value),+];
        if let Some(value) = values.first() {
            match value { $($pattern => {})+ }
        }
        values.iter().map(ToString::to_string).collect::<Vec<_>>()
    }};
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn said(text: &str) -> ServerError {
    ServerError::new(text.as_bytes())
}

fn io_error() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, "Connection refused (os error 111)")
}

#[test]
fn error_texts_change_only_on_purpose() {
    texts::hold(
        "errors.txt",
        &[
            ("Acquiring, extending and releasing: leasehold::Error", errors()),
            ("What one server said: leasehold::Vote", votes()),
            ("Why one server gave no vote", reasons()),
            ("Why a server is not fit", unfit()),
            ("Why a lease was lost: leasehold::Loss", losses()),
            ("What a shutdown released: leasehold::Shutdown", shutdowns()),
            ("Why there is no connection", connections()),
            ("Why there is no connection over TLS", tls_faults()),
            ("Why a command has no reply", faults()),
            ("What a server's bytes did wrong", decoding()),
            ("What servers refuse, in their words, and the cure", refusals()),
            ("What a Cluster's node did wrong", maps()),
            ("Misuse: names, labels, times, quorums", misuse()),
            ("Misuse: what only a builder or a locker can tell", settings()),
            ("Misuse: TLS", tls_settings()),
            ("Misuse: URLs", urls()),
        ],
    );
}

fn holder(label: Option<&str>, remaining: Option<Duration>, other: bool) -> Vote {
    Vote::Held(Some(Holder {
        owner: "5c9bbd27a3f0e6b1c9a6f8f2b7d1e402".into(),
        label: label.map(Into::into),
        remaining,
        lock_delay: label.filter(|label| *label == "printer-3").map(|_| ms(15_000)),
        shared: None,
        is_here: false,
        other_configuration: other,
        configuration: Configured::Unknown,
    }))
}

fn failed(kind: FailureKind, reason: &str) -> Vote {
    Vote::Failed { kind, reason: reason.into() }
}

fn report(votes: impl IntoIterator<Item = Vote>) -> Report {
    let server = |(index, vote)| ServerReport {
        server: format!("10.0.0.{}:6379", index + 1),
        round_trip: (!matches!(vote, Vote::Failed { .. } | Vote::Pending)).then_some(ms(1)),
        vote,
    };
    Report { servers: votes.into_iter().enumerate().map(server).collect() }
}

fn errors() -> Vec<String> {
    let held = || report([holder(Some("billing-7"), Some(ms(8_200)), false)]);
    let down = || failed(FailureKind::Unavailable, "cannot connect: Connection refused");
    let refused = || failed(FailureKind::Auth, "NOPERM no; grant the user +get");
    let no_quorum = |waited| Kind::NoQuorum { waited, is_final: false };
    let of = |kind, report| Error::new(kind, "invoice:42".into(), report);
    let waited = Some(Duration::from_secs(1));
    let all = [
        of(Kind::Contended { waited: None }, held()),
        of(Kind::Contended { waited }, held()),
        of(Kind::Contended { waited }, Report::default()),
        of(Kind::TooLate, report([Vote::Granted])),
        of(Kind::Spent, held()),
        of(Kind::Spent, report([Vote::NotOwned])),
        of(no_quorum(None), report([down()])),
        of(no_quorum(waited), report([down()])),
        of(no_quorum(None), report([Vote::Granted, down(), down()])),
        of(no_quorum(waited), report([Vote::Granted, down(), Vote::Pending])),
        of(no_quorum(waited), report([Vote::Granted, down(), refused()])),
        of(no_quorum(None), report([Vote::Pending, refused(), refused()])),
        of(no_quorum(None), report([Vote::Pending, down(), down()])),
        of(no_quorum(None), report([down(), down(), down()])),
        of(no_quorum(None), report([Vote::Stale, Vote::Granted, Vote::NotOwned])),
        of(no_quorum(None), Report::default()),
        of(Kind::HeldHere, Report::default()),
        Error::of(outcome::RELEASE, no_quorum(None), "invoice:42".into(), report([down()])),
        Error::of(outcome::EXTENSION, no_quorum(None), "invoice:42".into(), report([down()])),
        Error::connect(report([down(), down()])),
        of(Kind::Lost(Loss::Expired), Report::default()),
        of(Kind::ShutDown, Report::default()),
        Error::misuse("what is wrong"),
    ];
    let named = |error: &Error| match error.0.kind {
        Kind::Contended { .. }
        | Kind::TooLate
        | Kind::Spent
        | Kind::NoQuorum { .. }
        | Kind::Lost(_)
        | Kind::ShutDown
        | Kind::HeldHere
        | Kind::Misuse(_) => error.to_string(),
    };
    all.iter().map(named).collect()
}

fn votes() -> Vec<String> {
    let mut all = each![
        Vote::Granted => Vote::Granted,
        Vote::TakenOver(_) => match holder(Some("billing-7"), Some(ms(3_200)), false) {
            Vote::Held(Some(holder)) => Vote::TakenOver(holder),
            other => other,
        },
        Vote::Held(_) => Vote::Held(None),
        Vote::Queued { .. } => Vote::Queued { waiting: 2 },
        Vote::NotOwned => Vote::NotOwned,
        Vote::Stale => Vote::Stale,
        Vote::Pending => Vote::Pending,
        Vote::Failed { .. } => failed(FailureKind::Unknown, "what it said"),
    ];
    let holders = [
        holder(Some("billing-7"), Some(ms(3_200)), false),
        holder(None, Some(ms(80)), true),
        holder(Some("another library's"), None, false),
        holder(Some("printer-3"), Some(ms(14_200)), false),
    ];
    all.extend(holders.iter().map(ToString::to_string));
    all
}

fn losses() -> Vec<String> {
    each![
        Loss::Expired => Loss::Expired,
        Loss::Gone => Loss::Gone,
        Loss::NoQuorum => Loss::NoQuorum,
        Loss::Suspended => Loss::Suspended,
        Loss::ShutDown => Loss::ShutDown,
        Loss::HeldLongest => Loss::HeldLongest,
    ]
}

fn shutdowns() -> Vec<String> {
    let mut shutdown = Shutdown::default();
    shutdown.released.push("invoice:42".into());
    let whole = shutdown.to_string();
    shutdown.released.push("invoice:43".into());
    let reason = "no quorum of servers answered in time".into();
    shutdown.unreleased.push(Unreleased { name: "job".into(), reason });
    vec![whole, shutdown.to_string()]
}

fn reasons() -> Vec<String> {
    let mut all = each![
        Reason::NoConnection(_) => Reason::NoConnection(OpenError::Connecting),
        Reason::NoReply(_) => Reason::NoReply(Fault::ClosedByServer),
        Reason::Unexpected => Reason::Unexpected,
        Reason::Unanswered => Reason::Unanswered,
        Reason::BreakerOpen(_) => Reason::BreakerOpen(ms(1_250)),
        Reason::Unfit(_) => Reason::Unfit(Unfit::Replica),
        Reason::Quarantined(_) => Reason::Quarantined(ms(8_000)),
        Reason::Settling(_) => Reason::Settling(ms(1_500)),
        Reason::Graced(..) => Reason::Graced(ms(3_000), ms(7_000)),
        Reason::OtherLimit { .. } => Reason::OtherLimit { theirs: 0, ours: 3 },
        Reason::Unsettled(_) => Reason::Unsettled(said("READONLY x")),
        Reason::Refused(_) => Reason::Refused(said("ERR what it said")),
    ];
    all.push(Reason::Unsettled(said("MOVED 1 h:1")).to_string());
    let refused = [
        "READONLY x",
        "MOVED 1 h:1",
        "CLUSTERDOWN Hash slot not served",
        "CLUSTERDOWN The cluster is down",
        "WRONGTYPE x",
        "LOADING x",
    ];
    all.extend(refused.map(|text| Reason::Refused(said(text)).to_string()));
    all
}

fn unfit() -> Vec<String> {
    each![
        Unfit::Replica => Unfit::Replica,
        Unfit::NamedReplica => Unfit::NamedReplica,
        Unfit::ClusterNode => Unfit::ClusterNode,
        Unfit::NoNode => Unfit::NoNode,
        Unfit::Sentinel => Unfit::Sentinel,
        Unfit::SameAs(_) => Unfit::SameAs("10.0.0.1:6379".into()),
        Unfit::Evicts(_) => Unfit::Evicts("allkeys-lru".into()),
        Unfit::Forgets => Unfit::Forgets,
        Unfit::Unreadable(_) => Unfit::Unreadable("run_id"),
    ]
}

fn connections() -> Vec<String> {
    let broken = || Fault::ClosedByServer;
    each![
        OpenError::Timeout(_) => OpenError::Timeout(ms(2_000)),
        OpenError::ScriptsHeldUp(_) => OpenError::ScriptsHeldUp(ms(1_000)),
        OpenError::Dial(_) => OpenError::Dial(Arc::new(io_error())),
        OpenError::NoCredentials(_) => OpenError::NoCredentials("gave none within 1.8 s".into()),
        OpenError::Tls(_) => OpenError::Tls(TlsFault::Expired),
        OpenError::NoTls => OpenError::NoTls,
        OpenError::WantsTls => OpenError::WantsTls,
        OpenError::HungUp(_) => OpenError::HungUp(broken()),
        OpenError::NotRedis(_) => OpenError::NotRedis(DecodeError::UnknownType(b'<')),
        OpenError::Connecting => OpenError::Connecting,
        OpenError::RuntimeGone => OpenError::RuntimeGone,
        OpenError::Broken(_) => OpenError::Broken(broken()),
        OpenError::Refused { .. } =>
            OpenError::Refused { step: "AUTH", error: said("WRONGPASS invalid") },
        OpenError::Topology(_) => OpenError::Topology(BadMap::Overlap(7).to_string()),
        OpenError::Unexpected { .. } => OpenError::Unexpected { step: "SELECT" },
    ]
}

fn tls_faults() -> Vec<String> {
    each![
        TlsFault::Expired => TlsFault::Expired,
        TlsFault::NotYetValid => TlsFault::NotYetValid,
        TlsFault::WrongHost { .. } =>
            TlsFault::WrongHost { host: "a".into(), presented: "b, c and 2 more".into() },
        TlsFault::UnknownIssuer => TlsFault::UnknownIssuer,
        TlsFault::Certificate(_) => TlsFault::Certificate("BadEncoding".into()),
        TlsFault::ClientCertificate(_) => TlsFault::ClientCertificate("CertificateRequired".into()),
        TlsFault::Refused(_) => TlsFault::Refused("ProtocolVersion".into()),
        TlsFault::NotTls => TlsFault::NotTls,
        TlsFault::Silent(_) => TlsFault::Silent(ms(1_500)),
        TlsFault::ServerName(_) => TlsFault::ServerName("a b".into()),
        TlsFault::Other(_) => TlsFault::Other("what went wrong".into()),
    ]
}

fn faults() -> Vec<String> {
    each![
        Fault::Timeout(_) => Fault::Timeout(ms(500)),
        Fault::TooFar { .. } => Fault::TooFar { within: ms(500), greeting: ms(620) },
        Fault::Silent(_) => Fault::Silent(ms(1_000)),
        Fault::ClosedByServer => Fault::ClosedByServer,
        Fault::Io(_) => Fault::Io(Arc::new(io_error())),
        Fault::Decode(_) => Fault::Decode(DecodeError::InvalidInteger),
        Fault::Misplaced => Fault::Misplaced,
        Fault::Unexpected => Fault::Unexpected,
    ]
}

/// Errors of another crate, whose new variants go unnoticed here.
fn decoding() -> Vec<String> {
    use DecodeError as E;
    let limit = 65_536;
    let all = [
        E::UnknownType(b'?'),
        E::BareNewline,
        E::UnterminatedString,
        E::InvalidInteger,
        E::InvalidLength,
        E::InvalidBoolean,
        E::InvalidNull,
        E::InvalidDouble,
        E::InvalidBigNumber,
        E::InvalidVerbatim,
        E::InvalidEnd,
        E::UnexpectedEnd,
        E::KeyWithoutValue,
        E::AttributeWithoutValue,
        E::UnexpectedChunk,
        E::ExpectedChunk,
        E::NestedPush,
        E::LineTooLong { limit },
        E::BulkTooLong { limit },
        E::TooManyElements { limit },
        E::TooDeep { limit },
        E::FrameTooLong { limit },
    ];
    all.iter().map(ToString::to_string).collect()
}

fn refusals() -> Vec<String> {
    let all = [
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "ERR The user executing the script can't run this command or subcommand",
        "NOAUTH Authentication required.",
        "OOM command not allowed when used memory > 'maxmemory'.",
    ];
    let of_sentinel = said("NOAUTH Authentication required.").of_sentinel();
    all.iter().map(|text| said(text)).chain([of_sentinel]).map(|it| it.to_string()).collect()
}

fn maps() -> Vec<String> {
    each![
        BadMap::Malformed(_) => BadMap::Malformed("range of slots"),
        BadMap::Overlap(_) => BadMap::Overlap(7),
        BadMap::Empty => BadMap::Empty,
    ]
}

fn misuse() -> Vec<String> {
    let (ttl, worth) = (ms(10_000), ms(9_898));
    let mut all = each![
        InvalidName::Empty => InvalidName::Empty,
        InvalidName::TooLong(_) => InvalidName::TooLong(1_000_000),
        InvalidName::Reserved => InvalidName::Reserved,
        InvalidName::Braces => InvalidName::Braces,
    ];
    let bounds = |at_least, at_most| Bounds { at_least, at_most, lock_delay: None }.check();
    all.extend([
        check_label(&"x".repeat(300)).unwrap_err(),
        Quorum::new(0, None).unwrap_err(),
        Quorum::new(65, None).unwrap_err(),
        Quorum::new(3, Some(1)).unwrap_err(),
        Quorum::new(1, Some(2)).unwrap_err(),
        Term::new(ms(5), None).unwrap_err(),
        Term::new(Duration::from_secs(172_800), None).unwrap_err(),
        Term::new(ttl, Some(ttl)).unwrap_err(),
        Retry::fixed(Duration::ZERO).check().unwrap_err(),
        Retry::linear(ms(200), ms(100)).check().unwrap_err(),
        Retry::fixed(ttl).attempts(0).check().unwrap_err(),
        bounds(None, Some(Duration::ZERO)).unwrap_err(),
        bounds(Some(Duration::from_secs(172_800)), None).unwrap_err(),
        bounds(Some(ttl), Some(worth)).unwrap_err(),
    ]);
    let two_of_three_and_three_of_five =
        check_coexistence(&["a", "b", "c"], 2, &["a", "b", "c", "d", "e"], 3);
    all.push(two_of_three_and_three_of_five.unwrap_err().to_string());
    all
}

/// Errors of a builder before it connects.
fn settings() -> Vec<String> {
    let one = || Locker::builder().node("redis://10.0.0.1");
    let never = async |_, _| std::future::pending::<io::Result<tokio::net::TcpStream>>().await;
    let all: [Builder; 9] = [
        one().quorum(2),
        one().command_timeout(Duration::ZERO),
        one().connect_timeout(Duration::from_secs(7_200)),
        one().max_ttl(ms(1_000)),
        one().node("redis://10.0.0.1"),
        one().node("redis-cluster://10.0.0.2"),
        Locker::builder()
            .node("redis://:secret@10.0.0.1")
            .credentials(async |_| Ok::<_, io::Error>(crate::Credentials::password("another"))),
        one().tls(crate::Tls::new()),
        Locker::builder().node("redis+unix:///run/redis.sock").connector(never),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = |builder: Builder| match runtime.block_on(builder.connect()) {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
            error.to_string()
        }
        Ok(_) => unreachable!("nothing of it can be connected to"),
    };
    all.into_iter().map(refused).collect()
}

fn tls_settings() -> Vec<String> {
    let other = || tokio_rustls::rustls::Error::General("what went wrong".into());
    each![
        InvalidTls::File { .. } => InvalidTls::File { path: "ca.pem".into(), error: io_error() },
        InvalidTls::Certificates { .. } => InvalidTls::Certificates {
            whose: "the CA file ca.pem".into(),
            why: "none was found".into(),
        },
        InvalidTls::NoPlatformRoots(_) => InvalidTls::NoPlatformRoots("no such directory".into()),
        InvalidTls::Key => InvalidTls::Key,
        InvalidTls::Identity(_) => InvalidTls::Identity(other()),
        InvalidTls::ServerName(_) => InvalidTls::ServerName("a b".into()),
        InvalidTls::Other(_) => InvalidTls::Other(other()),
    ]
}

fn urls() -> Vec<String> {
    use InvalidEndpoint as E;
    each![
        E::MissingScheme => E::MissingScheme,
        E::UnknownScheme(_) => E::UnknownScheme("http".into()),
        E::MalformedScheme => E::MalformedScheme,
        E::Unprintable => E::Unprintable,
        E::UnencodedDelimiter => E::UnencodedDelimiter,
        E::Fragment => E::Fragment,
        E::MissingPassword => E::MissingPassword,
        E::Escape(_) => E::Escape(Part::Password),
        E::NotUtf8(_) => E::NotUtf8(Part::Service),
        E::MissingHost => E::MissingHost,
        E::UnexpectedList => E::UnexpectedList,
        E::GapInList => E::GapInList,
        E::HostTwice => E::HostTwice,
        E::AmbiguousLogin => E::AmbiguousLogin,
        E::Host => E::Host,
        E::Ipv6 => E::Ipv6,
        E::Port => E::Port,
        E::Database => E::Database,
        E::DatabaseTwice => E::DatabaseTwice,
        E::Parameter { .. } => E::parameter("timeout"),
        E::UnknownParameter => E::UnknownParameter,
        E::MissingService => E::MissingService,
        E::SlashInService => E::SlashInService,
        E::MissingSocketPath => E::MissingSocketPath,
        E::HostBeforeSocketPath => E::HostBeforeSocketPath,
        E::NulInSocketPath => E::NulInSocketPath,
    ]
}
