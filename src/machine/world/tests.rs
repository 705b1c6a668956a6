mod again;

use super::super::tests::{Bench, acquire, bulk, stamp};
use super::*;
use crate::names::Names;

/// Both replies are in one read.
#[test]
fn a_reply_that_no_script_of_ours_has_ends_the_connection_and_what_came_behind_it_is_not_believed()
{
    for first in ["granted", "nonsense"] {
        let mut bench = Bench::connected(1);
        for name in [b"a", b"b"] {
            acquire(&mut bench, name);
        }
        let asked = bench.said(0);
        let [one, other] = &asked[..] else { panic!("{asked:?}") };
        let nonsense = Frame::Array([stamp(one), bulk("nonsense")].into());
        let first = if first == "granted" { stamp(one) } else { nonsense };
        let mut bytes = BytesMut::new();
        leasehold_resp::encode_frame(&mut bytes, &first);
        let is_sense = first == stamp(one);
        leasehold_resp::encode_frame(&mut bytes, &stamp(other));
        bench.hear(0, &bytes);
        let holds = |name: &[u8]| bench.machine.holds(&Names::new(b"", name).unwrap());
        assert_eq!((holds(b"a"), holds(b"b")), (is_sense, is_sense));
        let faults = if is_sense { vec![] } else { vec![&Fault::Misplaced] };
        assert_eq!(bench.faults(), faults);
    }
}
