use proptest::prelude::*;

use super::*;
use crate::net::outcome::{Failure, Fault};

const SLICE: Duration = Duration::from_millis(50);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Moment {
    Moment::from_nanos(0).after(ms(n))
}

fn counted(count: i64) -> Outcome {
    Ok(Frame::Integer(count))
}

/// How many replicas the member is told of; none before it is told.
fn told(muster: &mut Muster<u64>, number: u64) -> Option<i64> {
    muster.take(number, |_| ())?.ok()?.as_integer()
}

#[test]
fn one_wait_answers_for_all_that_joined_before_it_and_for_none_after() {
    let mut muster = Muster::<u64>::default();
    let before = [muster.join(1, ms(300)), muster.join(2, ms(200))];
    assert_eq!(muster.next(at(0), SLICE), Some(Wait { replicas: 2, within: SLICE }));
    let after = muster.join(1, ms(300));
    assert_eq!(muster.next(at(0), SLICE), None, "one is under way");
    muster.settle(&counted(2), at(1));
    assert_eq!(before.map(|number| told(&mut muster, number)), [Some(2), Some(2)]);
    assert_eq!(told(&mut muster, after), None);
    assert_eq!(muster.next(at(1), SLICE), Some(Wait { replicas: 1, within: SLICE }));
    muster.settle(&counted(1), at(2));
    assert_eq!(told(&mut muster, after), Some(1));
    assert!(muster.is_over() && muster.next(at(2), SLICE).is_none());
}

#[test]
fn a_caller_with_too_few_is_told_when_its_time_is_over_and_not_before() {
    let mut muster = Muster::<u64>::default();
    let (few, many) = (muster.join(1, ms(60)), muster.join(3, ms(60)));
    let short = Wait { replicas: 3, within: ms(10) };
    assert!(muster.next(at(5), SLICE).is_some());
    muster.settle(&counted(1), at(55));
    assert_eq!((told(&mut muster, few), told(&mut muster, many)), (Some(1), None));
    assert_eq!(muster.next(at(55), SLICE), Some(short), "its time began when it was first asked");
    muster.settle(&counted(2), at(65));
    assert_eq!(told(&mut muster, many), Some(2));
}

#[test]
fn no_wait_is_for_ever() {
    let mut muster = Muster::<u64>::default();
    muster.join(1, Duration::ZERO);
    assert_eq!(muster.next(at(0), SLICE), Some(Wait { replicas: 1, within: SHORTEST }));
}

#[test]
fn what_is_no_number_is_told_to_all_it_answers_for() {
    let mut muster = Muster::<u64>::default();
    let lost = || Err(Failure::Unknown(Fault::ClosedByServer));
    let before = muster.join(1, ms(300));
    muster.next(at(0), SLICE).unwrap();
    let after = muster.join(1, ms(300));
    muster.settle(&lost(), at(1));
    assert!(matches!(muster.take(before, |_| ()), Some(Err(Failure::Unknown(_)))));
    assert!(muster.take(after, |_| ()).is_none());
    muster.next(at(1), SLICE).unwrap();
    muster.settle(&Ok(Frame::Error("NOPERM".into())), at(2));
    assert!(muster.take(after, |_| ()).unwrap().unwrap().error().is_some());
}

#[test]
fn callers_that_left_are_waited_for_no_more_and_a_late_reply_is_nobodys() {
    let mut muster = Muster::<u64>::default();
    let number = muster.join(1, ms(300));
    muster.next(at(0), SLICE).unwrap();
    assert!(!muster.is_over());
    muster.leave(number);
    assert!(muster.is_over());
    let next = muster.join(1, ms(300));
    muster.settle(&counted(1), at(1));
    assert_eq!(told(&mut muster, next), None);
    assert!(muster.next(at(1), SLICE).is_some());
}

#[test]
fn all_that_have_no_verdict_are_woken_once() {
    let mut muster = Muster::<u64>::default();
    let [a, b] = [muster.join(1, ms(300)), muster.join(1, ms(300))];
    for number in [a, b] {
        assert!(muster.take(number, |waker| *waker = Some(number)).is_none());
    }
    assert_eq!(muster.wake_all(), [a, b]);
    assert!(muster.wake_all().is_empty());
}

/// With no replica at all, a crowd that comes at any time is told so within its own time and a
/// slice, by few commands.
#[test]
fn a_crowd_without_a_replica_is_told_in_time() {
    let within = ms(300);
    let mut muster = Muster::<u64>::default();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    let (mut now, mut waits, mut told_at) = (0, 0, Vec::new());
    while told_at.len() < 64 {
        // One comes each millisecond.
        while joined.len() < 64 && joined.len() as u64 <= now {
            joined.push((muster.join(1, within), joined.len() as u64));
        }
        let wait = muster.next(at(now), SLICE).expect("nobody is told before the end");
        waits += 1;
        now += u64::try_from(wait.within.as_millis()).unwrap();
        muster.settle(&counted(0), at(now));
        for &(number, came) in &joined {
            if let Some(count) = told(&mut muster, number) {
                assert_eq!(count, 0);
                told_at.push((came, now));
            }
        }
    }
    // A wait that is cut to somebody's end is followed by one for those that have time left.
    assert!(waits <= 12, "{waits}");
    let longest = told_at.iter().map(|(came, told)| told - came).max().unwrap();
    assert!(ms(longest) <= within + SLICE, "{longest}");
}

#[derive(Clone, Debug)]
enum Turn {
    Write {
        needed: u32,
        within: u64,
    },
    Leave(usize),
    /// A replica gets all that was written.
    Replicate(usize),
    Ask,
    Answer {
        after: u64,
    },
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        (1..4_u32, 0..100_u64).prop_map(|(needed, within)| Turn::Write { needed, within }),
        (0..8_usize).prop_map(Turn::Leave),
        (0..3_usize).prop_map(Turn::Replicate),
        Just(Turn::Ask),
        (0..60_u64).prop_map(|after| Turn::Answer { after }),
    ];
    proptest::collection::vec(turn, 0..200)
}

struct Writer {
    number: u64,
    position: u64,
    needed: u32,
    within: u64,
    first_asked: Option<u64>,
}

proptest! {
    /// Against a server that counts replicas by how far in the stream of writes they are: nobody is
    /// told of a replica that lacks what it wrote, nor of too few before its time is over.
    #[test]
    fn nobody_is_told_of_a_replica_that_lacks_its_write(turns in turns()) {
        let mut muster = Muster::<u64>::default();
        let mut writers: Vec<Writer> = Vec::new();
        let (mut now, mut written, mut asked_for) = (0, 0, None);
        let mut has = [0_u64; 3];
        for turn in turns {
            match turn {
                Turn::Write { needed, within } => {
                    written += 1;
                    let number = muster.join(needed, ms(within));
                    let (position, first_asked) = (written, None);
                    writers.push(Writer { number, position, needed, within, first_asked });
                }
                Turn::Leave(index) if index < writers.len() => {
                    muster.leave(writers.swap_remove(index).number);
                }
                Turn::Leave(_) => {}
                Turn::Replicate(replica) => has[replica] = written,
                Turn::Ask => {
                    let wait = muster.next(at(now), SLICE);
                    prop_assert_eq!(wait.is_some(), asked_for.is_none() && !writers.is_empty());
                    if wait.is_some() {
                        asked_for = Some(written);
                        writers.iter_mut().for_each(|it| {
                            it.first_asked.get_or_insert(now);
                        });
                    }
                }
                Turn::Answer { after } => {
                    now += after;
                    let Some(position) = asked_for.take() else { continue };
                    let count = has.iter().filter(|it| **it >= position).count();
                    muster.settle(&counted(i64::try_from(count).unwrap()), at(now));
                }
            }
            let mut wrong = None;
            writers.retain(|writer| {
                let Some(count) = told(&mut muster, writer.number) else { return true };
                let true_count = has.iter().filter(|it| **it >= writer.position).count() as i64;
                let is_over = writer.first_asked.is_some_and(|it| now - it >= writer.within);
                if count > true_count || (count < writer.needed.into() && !is_over) {
                    wrong = Some((count, true_count));
                }
                false
            });
            prop_assert_eq!(wrong, None);
        }
    }
}
