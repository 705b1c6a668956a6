use super::*;

#[test]
fn an_id_is_spelled_in_hexadecimal_digits() {
    for id in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210, 10 << 64] {
        let owner = Owner::new(id, b"x");
        assert_eq!(owner.id(), format!("{id:032x}").as_bytes());
        assert_eq!(owner.value()[ID_LENGTH..], *b"~x");
    }
}
