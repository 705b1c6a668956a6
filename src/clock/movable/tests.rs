use super::*;
use crate::clock::of_the_runtime;

#[test]
fn clocks_go_on_where_they_were_and_as_the_runtime_does() {
    let instant = of_the_runtime();
    let origin = Origin { instant, moment: Moment::from_nanos(7), wall_micros: 5_000_000 };
    let span = Duration::from_secs(2);
    let nanos = |now| origin.shifted(5_000_000_000, now, |span| span.as_nanos());
    let micros = |now| origin.shifted(origin.wall_micros, now, |span| span.as_micros());
    assert_eq!((nanos(instant), micros(instant)), (5_000_000_000, 5_000_000));
    assert_eq!((nanos(instant + span), micros(instant + span)), (7_000_000_000, 7_000_000));
    assert_eq!((nanos(instant - span), micros(instant - span)), (3_000_000_000, 3_000_000));
}
