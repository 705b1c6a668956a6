use super::*;

#[test]
fn it_holds_what_was_collected_in_order() {
    for count in 0..4 {
        let mut few: OneOrMany<usize> = (0..count).collect();
        assert_eq!(*few, (0..count).collect::<Vec<_>>());
        assert_eq!(matches!(few, OneOrMany::One(_)), count == 1);
        few.iter_mut().for_each(|item| *item += 1);
        assert_eq!(*few, (1..=count).collect::<Vec<_>>());
    }
}
