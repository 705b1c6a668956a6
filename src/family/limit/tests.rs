use leasehold_resp::Frame;
use proptest::prelude::*;

use super::super::tests::{Simulated, said};
use super::*;

const NOW: i64 = 1_763_700_000_000_000;

const fn wish(least: u32, most: u32, within: u64) -> Wish {
    Wish { least, most, within: Duration::from_micros(within) }
}

#[test]
fn replies_are_read_as_the_scripts_head_says() {
    let taken = Said::Taken { tokens: 3, starts_in: Duration::from_micros(50), left: 7 };
    assert_eq!(Said::read(&said(&["taken", "3", "50", "7"]), wish(2, 4, 50)), Some(taken));
    let refused = Said::Refused { after: Duration::from_micros(9) };
    assert_eq!(Said::read(&said(&["refused", "9"]), wish(1, 1, 0)), Some(refused));
    let other = Said::Other(Rate::new(5, Duration::from_secs(1)).burst(2));
    assert_eq!(Said::read(&said(&["other", "5/1000000/2"]), wish(1, 1, 0)), Some(other));
}

/// Safety rule 13: more tokens than were asked for, or a wait that nobody would wait, is no reply.
#[test]
fn replies_that_the_script_cannot_give_mean_nothing() {
    let strange: [&[&str]; 10] = [
        &["taken", "5", "0", "7"],
        &["taken", "1", "0", "7"],
        &["taken", "3", "51", "7"],
        &["taken", "3", "-1", "7"],
        &["taken", "3", "0"],
        &["taken", "3", "0", "-7"],
        &["refused", "0"],
        &["refused", "-9"],
        &["other", "many"],
        &[],
    ];
    for words in strange {
        assert_eq!(Said::read(&said(words), wish(2, 4, 50)), None, "{words:?}");
    }
    assert_eq!(Said::read(&Frame::Integer(1), wish(1, 1, 0)), None);
}

/// A limit on a simulated server.
#[derive(Clone)]
struct OneLimit {
    server: Simulated,
    rate: Rate,
}

impl OneLimit {
    fn new(rate: Rate) -> Self {
        Self { server: Simulated::at(NOW), rate }
    }

    fn ask(&mut self, wish: Wish) -> Said {
        let [count, period, burst] = self.rate.arguments();
        let [least, most] = [wish.least, wish.most].map(|tokens| tokens.to_string());
        let within = wish.within.as_micros().to_string();
        let arguments = [&*count, &*period, &*burst, &*least, &*most, &*within];
        let reply = self.server.call(SCRIPT.text, "{x}:limit", &arguments);
        Said::read(&reply, wish).unwrap_or_else(|| panic!("{reply:?}"))
    }

    /// As a while later, or before.
    fn after(&self, micros: i64) -> Self {
        let mut later = self.clone();
        later.server.now += micros;
        later
    }

    /// How long the key still lasts, and none where it is gone.
    fn lasts_us(&mut self) -> Option<u64> {
        self.server.keyspace.set_now(self.server.now);
        self.server.keyspace.expire_all();
        Some(self.server.keyspace.ends_in_ms(b"{x}:limit")? * 1000)
    }
}

/// The promise: in any span, at most the burst and the rate's share of the span, where the caller waits
/// for as long as it was told. A set-back of the clock is no time, so spans are counted by the true one.
fn no_span_lets_through_more(rate: Rate, steps: &[(i64, Wish)]) -> Result<(), TestCaseError> {
    let mut limit = OneLimit::new(rate);
    let (mut elapsed, mut used): (i64, Vec<(i64, u32)>) = (0, Vec::new());
    for &(pause, wish) in steps {
        // A negative pause is a clock that is set back.
        limit.server.now += pause;
        elapsed += pause.max(0);
        match limit.ask(wish) {
            Said::Taken { tokens, starts_in, .. } => {
                used.push((elapsed + i64::try_from(starts_in.as_micros()).unwrap(), tokens));
                let lasts = limit.lasts_us().expect("what is kept ends");
                let refill = rate.time_of(rate.tokens_max()).unwrap() + wish.within;
                let set_back: i64 = steps.iter().map(|(pause, _)| (-pause).max(0)).sum();
                let longest = u64::try_from(refill.as_micros()).unwrap() + 2000;
                prop_assert!(lasts <= longest + u64::try_from(set_back).unwrap(), "{lasts}");
            }
            Said::Refused { after } => {
                let after = i64::try_from(after.as_micros()).unwrap();
                let then = Wish { within: Duration::ZERO, ..wish };
                let then_said = limit.after(after).ask(then);
                prop_assert!(matches!(then_said, Said::Taken { .. }), "as it was told");
                let said_before = limit.after(after - 1).ask(then);
                prop_assert!(matches!(said_before, Said::Refused { .. }), "and not sooner");
            }
            Said::Other(_) => prop_assert!(false, "there is one rate"),
        }
    }
    used.sort_unstable();
    for from in 0..used.len() {
        let mut tokens = 0;
        for &(at, count) in &used[from..] {
            tokens += u128::from(count);
            let span = u128::try_from(at - used[from].0).unwrap();
            let [count, period, burst] = rate.arguments().map(|text| text.parse::<u128>().unwrap());
            // What a burst takes to come back is rounded up to a microsecond.
            let most = burst + (span + 1) * count / period;
            prop_assert!(tokens <= most, "{tokens} of {most} in {span} µs: {used:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_span_lets_through_the_burst_and_its_share_at_the_most(
        count in 1_u32..200, period_ms in 1_u64..5_000, burst in 1_u32..20,
        steps in prop::collection::vec((-3_000_i64..400_000, 1_u32..20, 0_u32..20, 0_u64..900_000), 1..60),
    ) {
        let rate = Rate::new(count, Duration::from_millis(period_ms)).burst(burst);
        let steps: Vec<_> = steps
            .into_iter()
            .map(|(pause, least, more, within)| {
                let least = least.min(burst);
                (pause, wish(least, (least + more).min(burst), if more % 3 == 0 { within } else { 0 }))
            })
            .collect();
        no_span_lets_through_more(rate, &steps)?;
    }
}

/// Less than the rate is let through where a call takes few tokens of a rate above a million a second, never more.
#[test]
fn what_one_call_takes_counts_as_whole_microseconds() {
    let rate = Rate::new(1_000_000_000, Duration::from_secs(1)).burst(1_000_000);
    for (tokens, calls) in [(1500, 500), (150_000, 6), (1, 1000)] {
        let mut limit = OneLimit::new(rate);
        let mut takes = || matches!(limit.ask(wish(tokens, tokens, 0)), Said::Taken { .. });
        assert_eq!((0..2000).take_while(|_| takes()).count(), calls, "{tokens}");
    }
}

/// Redisson #2072 lets through more than its rate.
#[test]
fn a_burst_is_followed_by_single_tokens_at_the_rate() {
    let rate = Rate::new(10, Duration::from_secs(1)).burst(3);
    let mut limit = OneLimit::new(rate);
    let mut taken = 0;
    for _ in 0..1000 {
        taken += u32::from(matches!(limit.ask(wish(1, 1, 0)), Said::Taken { .. }));
        limit.server.now += 10_000;
    }
    assert_eq!(taken, 3 + 10 * 10 - 1, "the first three, and one each 100 ms of 9.99 s");
}

/// Redisson #4007 and #5098: what a limit keeps there never ends.
#[test]
fn what_is_kept_ends_when_the_limit_is_full() {
    let rate = Rate::new(10, Duration::from_secs(1));
    let mut limit = OneLimit::new(rate);
    limit.ask(wish(3, 3, 0));
    assert_eq!(limit.lasts_us(), Some(300_000));
    limit.server.now += 301_000;
    assert_eq!(limit.lasts_us(), None);
}
