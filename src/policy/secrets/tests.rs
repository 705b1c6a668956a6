use super::*;

const HIDDEN: &str = "(text hidden: it repeats a part of the password)";

fn shown(password: &str, text: &str) -> String {
    let tamed = tamed(text.as_bytes(), Some(password)).unwrap_or_else(|| text.into());
    String::from_utf8(tamed).unwrap()
}

#[test]
fn words_that_repeat_a_part_of_a_password_are_cut_to_the_first_that_says_what_it_is() {
    for (password, text, word) in [
        ("hunter2", "ERR unknown command 'AUTH', with args beginning with: 'hunt'...", "NOPROTO"),
        ("hunter2", "WRONGPASS not hunter2", "WRONGPASS"),
        ("hunter2", "NOPERM not hunter2", "NOPERM"),
        ("hunter2", "BUSY hunter2", "BUSY"),
        ("LOADING!", "LOADING too much", "LOADING"),
        ("hunter2", "hunter2 is no word", "ERR"),
        ("x", "ERR x", "ERR"),
        ("correct-horse-battery", "ERR it was ..t-horse-batt..", "ERR"),
        ("pas", "ERR invalid password of pas", "WRONGPASS"),
    ] {
        assert_eq!(shown(password, text), format!("{word} {HIDDEN}"));
        assert_eq!(Code::of(text), Code::of(word));
    }
    for (password, text) in [
        ("hunter2", "WRONGPASS invalid username-password pair"),
        ("", "ERR x"),
        ("hunter2", "ERR hun ter"),
    ] {
        assert_eq!(shown(password, text), text);
    }
    assert_eq!(tamed(b"NOPERM not hunter2", None), None);
}

/// To hide them would tell what the password begins with.
#[test]
fn what_servers_say_by_heart_is_shown_whatever_the_password_is() {
    for (password, text) in [
        ("password", "WRONGPASS invalid username-password pair or user is disabled."),
        ("invalid", "ERR invalid password"),
    ] {
        assert_eq!(shown(password, text), text);
    }
    for text in [
        "WRONGPASS invalid username-password pair or user is disabled. password",
        "a password: WRONGPASS invalid username-password pair or user is disabled.",
    ] {
        assert!(shown("password", text).ends_with(HIDDEN), "{text}");
    }
}

#[test]
fn an_error_is_kept_no_longer_than_people_read() {
    assert_eq!(shown("secret", &"x".repeat(3 << 20)).len(), TEXT_BYTES_MAX);
}
