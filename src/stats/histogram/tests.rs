use proptest::prelude::*;

use super::*;

fn recorded(nanos: &[u64]) -> Latencies {
    let histogram = Histogram::default();
    nanos.iter().for_each(|&n| histogram.record(Duration::from_nanos(n)));
    histogram.snapshot()
}

#[test]
fn without_a_record_there_is_nothing_to_say() {
    let none = recorded(&[]);
    assert_eq!((none.count(), none.mean(), none.max(), none.quantile(0.5)), (0, None, None, None));
    assert_eq!(none.to_string(), "none");
}

#[test]
fn buckets_follow_one_another_without_a_gap() {
    assert_eq!((begin_of(0), begin_of(1), begin_of(SPLIT)), (512, 576, 1024));
    for bucket in 1..BUCKETS {
        let begin = begin_of(bucket);
        assert_eq!((bucket_of(begin - 1), bucket_of(begin)), (bucket - 1, bucket));
        let width = begin - begin_of(bucket - 1);
        assert!(width * 8 <= begin_of(bucket - 1), "{bucket}");
    }
    assert_eq!(bucket_of((1 << END_BIT) - 1), BUCKETS - 1);
}

#[test]
fn what_is_out_of_range_goes_to_the_first_bucket_or_the_last() {
    let short = recorded(&[0, 0, 1]);
    assert_eq!(short.quantile(1.0), Some(Duration::from_nanos(1)));
    assert_eq!(recorded(&[0]).max(), Some(Duration::ZERO));
    let week = 7 * 24 * 60 * 60 * 1_000_000_000;
    let long = recorded(&[5000, week]);
    assert_eq!(long.quantile(1.0), Some(Duration::from_nanos(week)));
    assert_eq!(long.max(), Some(Duration::from_nanos(week)));
    let histogram = Histogram::default();
    histogram.record(Duration::MAX);
    assert_eq!(histogram.snapshot().max(), Some(Duration::from_nanos(u64::MAX)));
}

#[test]
fn a_record_that_is_seen_by_half_has_a_length_all_the_same() {
    let histogram = Histogram::default();
    histogram.buckets[bucket_of(5000)].fetch_add(1, Relaxed);
    let torn = histogram.snapshot();
    assert_eq!((torn.count(), torn.mean()), (1, Some(Duration::ZERO)));
    assert_eq!((torn.max(), torn.quantile(0.5)), (Some(Duration::from_nanos(4608)), torn.max()));
}

#[test]
fn a_share_beyond_all_counts_as_all_and_one_of_nothing_as_the_first() {
    let three = recorded(&[1000, 2000, 4000]);
    let quantiles = [-1.0, f64::NAN, 0.0, 1.0, 7.0, f64::INFINITY].map(|q| three.quantile(q));
    let [first, last] = [1023, 4000].map(|n| Some(Duration::from_nanos(n)));
    assert_eq!(quantiles, [first, first, first, last, last, last]);
}

#[test]
fn a_summary_names_the_middle_and_the_end() {
    let text = recorded(&[100_000, 100_000, 3_000_000]).to_string();
    let expected = "3, mean 1.1 ms, median at most 106.5 µs, 99 % at most 3 ms, maximum 3 ms";
    assert_eq!(text, expected);
}

#[test]
fn records_of_several_threads_are_all_counted() {
    let histogram = Histogram::default();
    std::thread::scope(|scope| {
        for thread in 1..=4_u64 {
            let histogram = &histogram;
            scope.spawn(move || {
                (1..=1000).for_each(|n| histogram.record(Duration::from_micros(thread * n)));
            });
        }
    });
    let all = histogram.snapshot();
    assert_eq!((all.count(), all.max()), (4000, Some(Duration::from_millis(4))));
}

proptest! {
    #[test]
    fn it_agrees_with_a_sorted_list(
        mut nanos in prop::collection::vec((512_u64..1 << END_BIT, 0_u32..38), 1..200)
            // Evenly over the powers of two, instead of nearly all in the largest.
            .prop_map(|all| all.into_iter().map(|(n, by)| (n >> by).max(512)).collect::<Vec<_>>()),
        share in 0.0..=1.0,
    ) {
        let latencies = recorded(&nanos);
        nanos.sort_unstable();
        let count = nanos.len() as u64;
        prop_assert_eq!(latencies.count(), count);
        prop_assert_eq!(latencies.max(), nanos.last().map(|&n| Duration::from_nanos(n)));
        let mean = u128::from(nanos.iter().sum::<u64>() / count);
        let close = latencies.mean().unwrap().as_nanos();
        prop_assert!(close <= mean && mean <= close + 128, "{close} for {mean}");
        let rank = usize::try_from(rank_of(share, count)).unwrap();
        let exact = u128::from(nanos[rank - 1]);
        let quantile = latencies.quantile(share).unwrap().as_nanos();
        prop_assert!(exact <= quantile && quantile <= exact + exact / 8);
    }
}
