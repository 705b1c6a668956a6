use super::*;

#[test]
fn labels_are_bounded_and_are_not_taken_for_the_mark_of_a_queue() {
    assert!(check_label("a\0").is_err());
    assert!(check_label("a\0b").is_ok());
    assert!(check_label(&"x".repeat(LABEL_BYTES_MAX)).is_ok());
    assert!(check_label(&"x".repeat(LABEL_BYTES_MAX + 1)).is_err());
}
