use super::*;
use crate::error::{ErrorKind, ServerReport};

#[test]
fn what_a_quorum_may_confirm_some_time_is_not_final() {
    let (names, quorum) = (Names::new(b"", b"a").unwrap(), Quorum::new(3, None).unwrap());
    let kind = |failures: [FailureKind; 3]| {
        let server = |kind| ServerReport {
            server: String::new(),
            vote: Vote::Failed { kind, reason: String::new() },
            round_trip: None,
        };
        let report = Report { servers: failures.map(server).into() };
        unconfirmed(RELEASE, &names, quorum, report).kind()
    };
    use FailureKind::{Auth, Misuse, Unavailable};
    assert_eq!(kind([Misuse, Unavailable, Unavailable]), ErrorKind::Unavailable);
    assert_eq!(kind([Misuse, Unavailable, Misuse]), ErrorKind::Misuse);
    assert_eq!(kind([Misuse, Unavailable, Auth]), ErrorKind::Auth);
}

#[test]
fn a_name_is_shown_harmlessly() {
    let names = Names::new(b"", &b"\x1b[2J\n".repeat(1000)).unwrap();
    let said = lost(&names, Loss::Expired).to_string();
    assert!(!said.contains(char::is_control) && said.len() < 2000, "{said:?}");
}
