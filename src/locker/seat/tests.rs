use bytes::Bytes;

use super::super::look::Seen;
use super::super::view::merge;
use super::*;
use crate::policy::Quorum;

const ASKED_AT: Moment = Moment::from_nanos(7_000_000_000);

fn seat(servers: &[(&'static str, i64, u64)]) -> LeaderState {
    let seen = |&(value, pttl_ms, counter): &(&'static str, i64, u64)| {
        let value = Bytes::from_static(value.as_bytes());
        let counter = Some(counter);
        let seen = Seen { value, is_whole: true, pttl_ms, counter, waiting: 0, taken: None };
        ("s".to_owned(), Ok(Some(seen)))
    };
    let quorum = Quorum::new(servers.len(), None).unwrap();
    LeaderState::of(
        &merge(b"o".to_vec(), quorum, None, servers.iter().map(seen).collect()),
        ASKED_AT,
    )
}

const ONE: &str = "0123456789abcdef0123456789abcdef!3:one";

#[test]
fn what_is_left_counts_from_before_the_question() {
    let LeaderState::Led(leader) = seat(&[(ONE, 10_000, 7)]) else { panic!("it is led") };
    let left = Duration::from_secs(10) - drift(Duration::from_secs(10));
    assert_eq!(leader.until, ASKED_AT.after(left));
    let LeaderState::Led(endless) = seat(&[(ONE, -1, 7)]) else { panic!("it is led") };
    assert_eq!(endless.until, ASKED_AT, "what never ends may be deleted at any time");
}

/// The third server lost the lease, granted it to another client, and got it back by repair.
#[test]
fn the_term_is_what_all_have_accepted_and_a_quorum_leads() {
    let LeaderState::Led(leader) = seat(&[(ONE, 9000, 7), (ONE, 8000, 7), (ONE, 9000, 9)]) else {
        panic!("it is led")
    };
    assert_eq!((leader.candidate(), leader.fence()), ("one", Some(FencingToken::new(7))));
    let other = "f123456789abcdef0123456789abcdef:other";
    assert_eq!(seat(&[(ONE, 9, 7), (other, 9, 8)]), LeaderState::Vacant);
}

#[test]
fn a_renewal_is_news_and_a_quicker_reply_is_none() {
    let led = |millis: u64, fence| {
        let until = clock::now().after(Duration::from_millis(millis));
        let fence = Some(FencingToken::new(fence));
        Ok(LeaderState::Led(Leader { candidate: "one".into(), fence, until }))
    };
    let known = led(60_000, 1);
    assert!(is_news(&known, &led(90_000, 1)) && is_news(&known, &led(60_000, 2)));
    assert!(!is_news(&known, &led(60_500, 1)) && !is_news(&known, &led(30_000, 1)));
    assert!(is_news(&known, &Ok(LeaderState::Vacant)) && !is_news(&known, &known));
}
