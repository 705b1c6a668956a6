use proptest::prelude::*;

use super::*;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Moment {
    Moment::from_nanos(0).after(ms(n))
}

#[test]
fn a_renewal_leaves_room_for_two_more_before_the_end() {
    let (renewed_at, step) = (renew_at(at(500), ms(9000)), ms(9000) / GRID_SHARE);
    assert!(renewed_at <= at(3500) && at(3500) < renewed_at.after(step));
}

#[test]
fn renewals_of_leases_that_were_asked_for_within_a_step_go_out_together() {
    let (ttl, step) = (ms(30_000), ms(30_000) / GRID_SHARE);
    let renewed_at = renew_at(at(300_000), ttl);
    let begin = at(0).after(renewed_at.since(at(0)) - ttl / RENEW_SHARE);
    let later = |span| renew_at(begin.after(span), ttl);
    assert_eq!([later(ms(0)), later(step * 9 / 10)], [renewed_at; 2]);
    assert_eq!(later(step), renewed_at.after(step));
}

#[test]
fn retries_come_soon_at_first_and_back_off_to_a_sixth() {
    let delay = |failed| {
        retry_at(at(0), failed, ms(6000), at(6000), u64::MAX).unwrap().since(at(0)).as_millis()
    };
    assert_eq!([0, 1, 2, 3, 4, 90].map(delay), [99, 199, 399, 799, 999, 999]);
}

#[test]
fn the_last_try_leaves_time_for_its_reply_and_none_follows_it() {
    assert_eq!(retry_at(at(9600), 9, ms(10_000), at(10_200), 0), Some(at(9700)));
    assert_eq!(retry_at(at(9700), 9, ms(10_000), at(10_200), 0), None);
    assert_eq!(retry_at(at(10_300), 0, ms(10_000), at(10_200), 0), None);
}

proptest! {
    #[test]
    fn retries_advance_and_end_before_the_deadline(ttl in 10_u64..86_400_000, random: u64) {
        let (ttl, deadline) = (ms(ttl), at(0).after(ms(ttl) - ms(ttl) / 100 - ms(2)));
        let (mut now, mut tries) = (renew_at(at(0), ttl), 0_u32);
        while let Some(next) = retry_at(now, tries, ttl, deadline, random) {
            prop_assert!(next > now && next.after(ttl / LAST_SHARE) <= deadline);
            (now, tries) = (next, tries + 1);
        }
        prop_assert!((1..30).contains(&tries), "{}", tries);
    }
}
