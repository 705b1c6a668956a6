use super::*;

#[test]
fn an_id_is_spelled_in_hexadecimal_digits() {
    for id in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210, 10 << 64] {
        let owner = Owner::new(id, b"x");
        assert_eq!(owner.id(), format!("{id:032x}").as_bytes());
        assert_eq!(owner.value()[ID_LENGTH..], *b"~x");
    }
}

#[test]
fn one_that_knows_no_marks_says_the_same_and_so_do_those_behind_it() {
    for said in [&b""[..], b"+5:x"] {
        let owner = Owner::new(1, said).knowing_no_marks();
        assert_eq!(owner.value(), [Owner::new(1, b"").id(), said].concat());
        assert!(owner.said() == said && owner.says(&Owner::new(2, said)));
        assert_eq!(owner.another(2).value(), Owner::new(2, said).knowing_no_marks().value());
    }
}
