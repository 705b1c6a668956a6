use super::*;

/// The matches of `KEYS` in Redis 7.0.
#[test]
fn names_match_patterns_as_keys_do() {
    let table = [
        ("*", "", true),
        ("**a*b", "xaybzb", true),
        ("a*b", "ab:", false),
        ("a?c", "abc", true),
        ("a?", "a", false),
        ("[a-c]x", "bx", true),
        ("[c-a]x", "bx", true),
        ("[^a-c]x", "bx", false),
        ("[^a]x", "bx", true),
        (r"[\]]x", "]x", true),
        ("[ab", "a", true),
        (r"a\*", "a*", true),
        (r"a\*", "ab", false),
        (r"a\", r"a\", true),
        ("", "a", false),
    ];
    for (pattern, key, does_match) in table {
        assert_eq!(matches(pattern.as_bytes(), key.as_bytes()), does_match, "{pattern} {key}");
    }
}
