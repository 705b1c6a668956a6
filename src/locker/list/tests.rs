use super::*;

#[test]
fn a_prefix_stands_for_itself_alone() {
    assert_eq!(key_pattern(b"app:", b"a*"), b"app:a*");
    assert_eq!(key_pattern(br"[a]*?\", b"[b]"), br"\[a\]\*\?\\[b]");
}
