use super::super::tests::said;
use super::*;

#[test]
fn replies_are_read_as_the_scripts_head_says() {
    assert_eq!(Said::read(&said(&["open"])), Some(Said::Open));
    assert_eq!(Said::read(&said(&["closed", "2"])), Some(Said::Closed(Some(2))));
    assert_eq!(Said::read(&said(&["closed", "-1"])), Some(Said::Closed(None)));
    assert_eq!(Said::read(&said(&["other", "7"])), Some(Said::Other(7)));
}

/// Safety rule 13.
#[test]
fn replies_that_the_script_cannot_give_open_no_latch() {
    let strange: [&[&str]; 6] =
        [&["open", "1"], &["closed", "0"], &["closed"], &["closed", "-2"], &["other"], &[]];
    for words in strange {
        assert_eq!(Said::read(&said(words)), None, "{words:?}");
    }
    assert_eq!(Said::read(&Frame::Integer(1)), None);
}
