use proptest::prelude::*;

use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn what_is_no_ticket_is_refused() {
    let parse = |text: &str| Ticket::parse(text).map(|_| ());
    assert_eq!(parse(&format!("lh1.{ID}..a")), Ok(()));
    assert_eq!(parse(&format!("lh1.{ID}.0a1b2c3d.a_00")), Ok(()));
    for version in ["lh2", "lh10"] {
        assert_eq!(parse(&format!("{version}.{ID}..a")), Err(InvalidTicket::Version));
    }
    let texts = ["", ".", "lh1", "lh.a", "lhx.a", "a.b.c.d"].map(str::to_owned);
    let rests = [
        "..",
        "..a.b",
        ".0a1b.a",
        ".0a1b2c3X.a",
        "..a_",
        "..a_0",
        "..a_0g",
        "..a_0a",
        "..a b",
        "..a_30",
    ];
    let long = format!("lh1.{ID}..{}", "a".repeat(TEXT_MAX));
    let rests = rests.map(|rest| format!("lh1.{ID}{rest}"));
    let ids = [&ID[1..], "0123456789ABCDEF0123456789abcdef", "é123456789abcdef0123456789abcde"];
    let ids = ids.map(|id| format!("lh1.{id}..a"));
    for text in texts.iter().chain(&rests).chain(&ids).chain([&long]) {
        assert_eq!(parse(text), Err(InvalidTicket::Form), "{text}");
    }
}

#[test]
fn the_id_is_in_no_debug_text() {
    let ticket = Ticket::parse(&format!("lh1.{ID}..a_0A")).unwrap();
    assert_eq!(format!("{ticket:?}"), "Ticket(a\\n)");
}

proptest! {
    #[test]
    fn any_ticket_is_read_as_it_was_written(
        key in prop::collection::vec(any::<u8>(), 1..40), several in any::<bool>(),
    ) {
        let fingerprint = several.then(|| "0a1b2c3d".into());
        let id = ID.as_bytes().try_into().unwrap();
        let ticket = Ticket { key: key.into(), id, fingerprint };
        let text = ticket.to_string();
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        prop_assert!(text.bytes().all(is_safe), "{}", text);
        prop_assert_eq!(Ticket::parse(&text), Ok(ticket));
    }

    #[test]
    fn no_text_is_read_as_another(text in "lh1\\.[0-9a-f]{32}\\.\\.[a-zA-Z0-9_.-]{0,12}") {
        if let Ok(ticket) = Ticket::parse(&text) {
            prop_assert_eq!(ticket.to_string(), text);
        }
    }
}
