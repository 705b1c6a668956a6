use super::{find, has, parted};

#[test]
fn a_part_is_found_where_it_stands_first() {
    for (text, part) in [("", "a"), ("a", "ab"), ("abab", "ab"), ("xaab", "aab"), ("xab", "c")] {
        assert_eq!(find(text.as_bytes(), part.as_bytes()), text.find(part), "{text} {part}");
        assert_eq!(parted(text, part), text.split_once(part), "{text} {part}");
        assert_eq!(has(text, part), text.contains(part), "{text} {part}");
    }
    assert_eq!(parted("é: ü", ": "), Some(("é", "ü")));
}
