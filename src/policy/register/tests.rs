use super::*;

fn read(accepted: &[Option<(u64, char)>]) -> Option<Reading<char>> {
    Reading::of(Quorum::new(5, Some(3)).unwrap(), accepted.iter().copied())
}

#[test]
fn too_few_promises_say_nothing() {
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[Some((1, 'a')), Some((1, 'a'))]), None);
}

#[test]
fn the_value_with_the_highest_token_counts_and_a_quorum_of_it_is_decided() {
    assert_eq!(read(&[None; 3]), Some(Reading::Nothing));
    let old = Some((1, 'a'));
    let new = Some((2, 'b'));
    assert_eq!(read(&[None, old, None]), Some(Reading::Open('a')));
    assert_eq!(read(&[old, old, new]), Some(Reading::Open('b')));
    assert_eq!(read(&[new, old, old]), Some(Reading::Open('b')));
    assert_eq!(read(&[old, old, old]), Some(Reading::Decided('a')));
    assert_eq!(read(&[old, old, old, new]), Some(Reading::Open('b')));
    assert_eq!(read(&[new, old, new, new]), Some(Reading::Decided('b')));
}
