use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn taken(timers: &mut TimerWheel<u32>, now: Moment, most: usize) -> Vec<TimerKey> {
    let mut due = Vec::new();
    timers.take_due(now, most, &mut due);
    due
}

#[test]
fn an_item_far_off_costs_one_look_per_level_and_a_jump_of_hours_one_pass() {
    let day = at(0).after(Duration::from_secs(86_400));
    let mut timers = TimerWheel::new(at(0));
    let entry = timers.insert(1, day);
    let mut looks = 0;
    let mut look_at = timers.next_at().unwrap();
    while taken(&mut timers, look_at, 9).is_empty() {
        let next = timers.next_at().unwrap();
        assert!(next > look_at);
        look_at = next;
        looks += 1;
    }
    assert!(looks < 6, "{looks}");
    assert_eq!(timers.next_at(), None);
    assert!(timers.reschedule(entry, day.after(Duration::from_secs(7200))));
    assert_eq!(taken(&mut timers, day.after(Duration::from_secs(9000)), 9), [entry]);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Reschedule(usize, u64),
    Remove(usize),
    Pass(u64, usize),
}

fn spans() -> impl Strategy<Value = u64> {
    (0..48_u32, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => spans().prop_map(Step::Insert),
        2 => (any::<usize>(), spans()).prop_map(|(which, span)| Step::Reschedule(which, span)),
        1 => any::<usize>().prop_map(Step::Remove),
        3 => (spans(), 0..6_usize).prop_map(|(span, most)| Step::Pass(span, most)),
    ]
}

/// A case of this many steps takes Miri seconds.
const STEPS_MAX: usize = if cfg!(miri) { 20 } else { 120 };

proptest! {
    /// Against a plain map of every entry ever given out: its item and when it is due.
    #[test]
    fn it_does_what_a_plain_map_does(
        start in spans(), steps in proptest::collection::vec(steps(), 1..STEPS_MAX),
    ) {
        let mut now = start;
        let mut timers = TimerWheel::new(at(now));
        let mut entries: Vec<TimerKey> = Vec::new();
        let mut model: BTreeMap<usize, Option<u64>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(span) => {
                    // Some are overdue already.
                    let due = (now + span).saturating_sub(1 << 30);
                    let number = entries.len();
                    entries.push(timers.insert(u32::try_from(number).unwrap(), at(due)));
                    model.insert(number, Some(due));
                }
                Step::Reschedule(which, span) if !entries.is_empty() => {
                    let number = which % entries.len();
                    let is_there = timers.reschedule(entries[number], at(now + span));
                    prop_assert_eq!(is_there, model.contains_key(&number));
                    if is_there {
                        model.insert(number, Some(now + span));
                    }
                }
                Step::Remove(which) if !entries.is_empty() => {
                    let number = which % entries.len();
                    let item = timers.get(entries[number]).map(|item| *item as usize);
                    prop_assert_eq!(item, model.remove(&number).map(|_| number));
                    timers.discard(entries[number]);
                }
                Step::Pass(span, most) => {
                    now += span;
                    let tick = now / TICK_NANOS;
                    let is_due = |due: &Option<u64>| {
                        due.is_some_and(|due| due.div_ceil(TICK_NANOS) <= tick)
                    };
                    let expected = model.values().filter(|due| is_due(due)).count().min(most);
                    let due = taken(&mut timers, at(now), most);
                    prop_assert_eq!(due.len(), expected);
                    for entry in due {
                        let number = *timers.get(entry).unwrap() as usize;
                        prop_assert!(is_due(&model[&number]), "early, or twice");
                        model.insert(number, None);
                    }
                }
                _ => {}
            }
            prop_assert_eq!(timers.len(), model.len());
            let first = model.values().flatten().min().map(|due| due.div_ceil(TICK_NANOS));
            let next = timers.next_at().map(|next| next.as_nanos() / TICK_NANOS);
            prop_assert_eq!(next.is_some(), first.is_some());
            if let (Some(next), Some(first)) = (next, first) {
                prop_assert!(next <= first.max(now / TICK_NANOS));
            }
            for (number, entry) in entries.iter().enumerate() {
                let item = timers.get(*entry).map(|item| *item as usize);
                prop_assert_eq!(item, model.contains_key(&number).then_some(number));
            }
        }
        let mut there: Vec<usize> = timers.iter().map(|(_, item)| *item as usize).collect();
        there.sort_unstable();
        prop_assert!(there.iter().eq(model.keys()));
    }
}

#[test]
fn room_that_is_let_go_of_leaves_no_name_to_be_used_twice() {
    let mut wheel = TimerWheel::new(Moment::from_nanos(0));
    let count = KEPT_MAX + 1;
    let before: Vec<TimerKey> =
        (0..count).map(|item| wheel.insert(item, Moment::from_nanos(0))).collect();
    before.iter().for_each(|key| wheel.discard(*key));
    assert!(wheel.slots.capacity() == 0 && wheel.next_at().is_none());
    let after: Vec<TimerKey> =
        (0..count).map(|item| wheel.insert(item, Moment::from_nanos(0))).collect();
    assert!(before.iter().all(|key| wheel.get(*key).is_none() && !after.contains(key)));
    let mut due = Vec::new();
    wheel.take_due(Moment::from_nanos(1), usize::MAX, &mut due);
    assert_eq!(due, after);
}
