use super::*;

const HIDDEN: &str = "(text hidden: it repeats a part of the password)";

fn shown(secrets: &[&str], text: &str, answers_login: bool) -> String {
    let mut all = Secrets::default();
    secrets.iter().for_each(|secret| all.hide(secret));
    let tamed = all.tamed(text.as_bytes(), answers_login).unwrap_or_else(|| text.into());
    String::from_utf8(tamed).unwrap()
}

#[test]
fn words_that_repeat_a_part_of_a_password_are_cut_to_the_first_that_says_what_it_is() {
    for (secret, text, word) in [
        ("hunter2", "ERR unknown command 'AUTH', with args beginning with: 'hunt'...", "NOPROTO"),
        ("hunter2", "WRONGPASS not hunter2", "WRONGPASS"),
        ("hunter2", "NOPERM not hunter2", "NOPERM"),
        ("hunter2", "BUSY hunter2", "BUSY"),
        ("LOADING!", "LOADING too much", "LOADING"),
        ("hunter2", "hunter2 is no word", "ERR"),
        ("hunter2", "MOVED to hunter2", "MOVED"),
        ("x", "ERR x", "ERR"),
        ("correct-horse-battery", "ERR it was ..t-horse-batt..", "ERR"),
        ("pas", "ERR invalid password of pas", "WRONGPASS"),
    ] {
        assert_eq!(shown(&["before", secret], text, true), format!("{word} {HIDDEN}"));
        assert_eq!(Code::of(text), Code::of(word));
    }
    for (secret, text) in [
        ("hunter2", "WRONGPASS invalid username-password pair"),
        ("", "ERR x"),
        // Else a Cluster would not be found again from a host that is called like its password.
        ("node-1", "MOVED 3999 node-1.local:6381"),
        ("hunter2", "ERR hun ter"),
    ] {
        assert_eq!(shown(&[secret], text, true), text);
    }
}

/// Nothing but a login is repeated in part: a user is told of a right, also one whose password begins like a common word.
#[test]
fn behind_the_login_a_beginning_hides_nothing() {
    for (secret, text) in [
        ("user-17", "NOPERM this user has no permissions to run the 'eval' command"),
        ("x", "ERR x"),
    ] {
        assert_eq!(shown(&[secret], text, false), text);
    }
    for (secret, text) in [("hunter2", "BUSY hunter2"), ("long-enough", "BUSY ..ng-enoug..")] {
        assert_eq!(shown(&[secret], text, false), format!("BUSY {HIDDEN}"));
    }
}

/// To hide them would tell what the password begins with.
#[test]
fn what_servers_say_by_heart_is_shown_whatever_the_password_is() {
    for (secret, text) in [
        ("password", "WRONGPASS invalid username-password pair or user is disabled."),
        ("invalid", "ERR invalid password"),
    ] {
        assert_eq!(shown(&[secret], text, true), text);
    }
    for text in [
        "WRONGPASS invalid username-password pair or user is disabled. password",
        "a password: WRONGPASS invalid username-password pair or user is disabled.",
    ] {
        assert!(shown(&["password"], text, true).ends_with(HIDDEN), "{text}");
    }
}

#[test]
fn of_many_passwords_the_last_are_hidden() {
    let all: Vec<String> = (0..=SECRETS_MAX).map(|number| format!("{number}-token")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(shown(&all, "ERR 0-to", true), "ERR 0-to");
    assert_eq!(shown(&all, "ERR 1-to", true), format!("ERR {HIDDEN}"));
}

#[test]
fn an_error_is_kept_no_longer_than_people_read() {
    assert_eq!(shown(&["secret"], &"x".repeat(3 << 20), true).len(), TEXT_BYTES_MAX);
}
