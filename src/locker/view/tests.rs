use super::*;
use crate::net::open_error::OpenError;

const ONE: &str = "0123456789abcdef0123456789abcdef@0a1b2c3d:one";
const TWO: &str = "f123456789abcdef0123456789abcdef@0a1b2c3d:two";

fn held(value: &'static str, pttl_ms: i64, counter: u64) -> Looked {
    let value = Bytes::from_static(value.as_bytes());
    let (counter, waiting) = (Some(counter), counter);
    Ok(Some(Seen { value, is_whole: true, pttl_ms, counter, waiting, taken: None }))
}

fn down() -> Looked {
    Err(Reason::NoConnection(OpenError::Connecting))
}

fn merged(looked: impl IntoIterator<Item = Looked>) -> LockView {
    let looked: Vec<_> = looked
        .into_iter()
        .enumerate()
        .map(|(server, looked)| (format!("s{server}"), looked))
        .collect();
    let quorum = Quorum::new(looked.len(), None).unwrap();
    merge(b"job".to_vec(), quorum, Some("0a1b2c3d"), looked)
}

#[test]
fn a_quorum_makes_a_holder_whichever_other_owner_has_a_server() {
    let view = merged([
        held(TWO, 9000, 4),
        held(ONE, 3000, 7),
        down(),
        held(ONE, 1000, 7),
        held(ONE, 2000, 7),
    ]);
    assert_eq!((view.state, view.servers, view.quorum), (LockState::Held, 5, 3));
    let [one, two] = &view.holders[..] else { panic!("{view:?}") };
    assert_eq!(one.servers, ["s1", "s3", "s4"]);
    assert_eq!(one.holder.label.as_deref(), Some("one"));
    assert_eq!(one.tokens, [7]);
    // Its third server is the last of its quorum.
    assert_eq!(one.holder.remaining, Some(Duration::from_secs(1)));
    assert!(one.is_lease() && !one.holder.other_configuration);
    assert_eq!((&two.servers[..], view.waiting), (&["s0".to_owned()][..], 7));
    assert_eq!(view.failures.len(), 1);
    assert_eq!(view.failures[0].server, "s2");
}

#[test]
fn an_owner_is_one_where_others_wait_and_so_are_sharers() {
    const WAITED_FOR: &str = "0123456789abcdef0123456789abcdef@0a1b2c3d:one\0";
    let view = merged([held(WAITED_FOR, 9, 1), held(ONE, 9, 1), down()]);
    assert_eq!((view.state, view.holders.len()), (LockState::Held, 1));
    assert_eq!(view.holders[0].values(), [ONE, WAITED_FOR]);

    const READER: &str = "0123456789abcdef0123456789abcdef*0@0a1b2c3d:one";
    const ANOTHER: &str = "f123456789abcdef0123456789abcdef*0@0a1b2c3d:two";
    const PERMIT: &str = "f123456789abcdef0123456789abcdef*3@0a1b2c3d:two";
    let view = merged([held(READER, 9, 1), held(ANOTHER, 9, 1), down()]);
    assert_eq!((view.state, view.holders.len()), (LockState::Held, 1));
    let view = merged([held(READER, 9, 1), held(PERMIT, 9, 1), held(ONE, 9, 1)]);
    assert_eq!((view.state, view.holders.len()), (LockState::Partial, 3));
}

#[test]
fn less_than_a_quorum_is_no_holder_and_may_hide_one() {
    let two_down = [held(ONE, 1, 1), Ok(None), Ok(None), down(), down()];
    assert_eq!(merged(two_down).state, LockState::Unknown);
    let split = [held(ONE, 1, 1), held(TWO, 1, 2), held(ONE, 1, 1), held(TWO, 1, 2), Ok(None)];
    let view = merged(split);
    assert_eq!((view.state, view.holders.len()), (LockState::Partial, 2));
    assert_eq!(merged([Ok(None), down(), Ok(None)]).state, LockState::Free);
    assert_eq!(merged([down()]).state, LockState::Unknown);
}

#[test]
fn tokens_that_differ_are_all_shown() {
    let view = merged([held(ONE, -1, 9), held(ONE, -1, 3), held(ONE, 5, 9)]);
    assert_eq!(view.holders[0].tokens, [3, 9]);
    assert_eq!(view.holders[0].holder.remaining, None);
}

#[test]
fn what_others_keep_under_a_key_is_no_lease() {
    let view = merged([held("redis-py", 100, 1)]);
    assert!(!view.holders[0].is_lease());
    let Ok(Some(mut seen)) = held(ONE, 1, 1) else { panic!() };
    assert!(is_lease(&seen));
    seen.is_whole = false;
    assert!(!is_lease(&seen));
    assert!(!merged([Ok(Some(seen))]).holders[0].is_lease());
}

#[test]
fn a_lease_is_broken_once_too_few_servers_may_still_have_it() {
    let failures = merged([down(), down(), down()]).failures;
    let broken = |failed: usize| {
        let failures = failures[..failed].to_vec();
        Broken { freed: Vec::new(), failures, quorum: 2 }.is_complete()
    };
    assert!(broken(0) && broken(1) && !broken(2) && !broken(3));
}
