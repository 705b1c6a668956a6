use super::*;

const HIDDEN: &str = "(text hidden: it repeats a part of the password)";

fn tamed(secrets: &[&str], text: &str) -> String {
    let mut all = Secrets::default();
    secrets.iter().for_each(|secret| all.hide(secret));
    let tamed = all.tamed(text.as_bytes()).unwrap_or_else(|| text.into());
    String::from_utf8(tamed).unwrap()
}

#[test]
fn words_that_repeat_a_part_of_a_password_are_cut_to_the_first_that_says_what_it_is() {
    for (secret, text, word) in [
        ("hunter2", "ERR unknown command 'AUTH', with args beginning with: 'hunt'...", "NOPROTO"),
        ("hunter2", "WRONGPASS not hunter2", "WRONGPASS"),
        ("hunter2", "BUSY hunter2", "BUSY"),
        ("hunter2", "hunter2 is no word", "ERR"),
        ("hunter2", "MOVED to hunter2", "MOVED"),
        ("x", "ERR x", "ERR"),
        ("correct-horse-battery", "ERR it was ..t-horse-batt..", "ERR"),
        ("pas", "ERR invalid password of pas", "WRONGPASS"),
    ] {
        assert_eq!(tamed(&["before", secret], text), format!("{word} {HIDDEN}"));
        assert_eq!(Code::of(text), Code::of(word));
    }
    for (secret, text) in [
        ("hunter2", "WRONGPASS invalid username-password pair"),
        ("", "ERR x"),
        // Else a Cluster would not be found again from a host that is called like its password.
        ("node-1", "MOVED 3999 node-1.local:6381"),
        ("hunter2", "ERR hun ter"),
        (
            "hunter2",
            "FENCE the fence counter of this lock holds no number or is used up: tokens end at 2^53",
        ),
    ] {
        assert_eq!(tamed(&[secret], text), text);
    }
}

/// To hide them would tell what the password begins with.
#[test]
fn what_servers_say_by_heart_is_shown_whatever_the_password_is() {
    for (secret, text) in [
        ("password", "WRONGPASS invalid username-password pair or user is disabled."),
        ("invalid", "ERR invalid password"),
        ("permissions", "NOPERM this user has no permissions to run the 'client|caching' command"),
        (
            "script",
            "ERR The user executing the script can't run this command or subcommand script: 62ab, on \
             @user_script:12.",
        ),
    ] {
        assert_eq!(tamed(&[secret], text), text);
    }
    for text in [
        "WRONGPASS invalid username-password pair or user is disabled. password",
        "NOPERM this user has no permissions to run the 'password' command",
        "a password: WRONGPASS invalid username-password pair or user is disabled.",
    ] {
        assert!(tamed(&["password"], text).ends_with(HIDDEN), "{text}");
    }
}

#[test]
fn the_right_that_a_user_lacks_is_told_though_its_name_is_hidden() {
    let said = |text| tamed(&["hunter2"], text);
    assert_eq!(
        said("NOPERM User hunter has no permissions to run the 'pttl' command"),
        format!("NOPERM may not run the 'pttl' command {HIDDEN}")
    );
    let echo = "NOPERM User hunter has no permissions to run the 'hunter2' command";
    assert_eq!(said(echo), format!("NOPERM {HIDDEN}"));
}

#[test]
fn of_many_passwords_the_last_are_hidden() {
    let all: Vec<String> = (0..=SECRETS_MAX).map(|number| format!("{number}-token")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(tamed(&all, "ERR 0-to"), "ERR 0-to");
    assert_eq!(tamed(&all, "ERR 1-to"), format!("ERR {HIDDEN}"));
}

#[test]
fn an_error_is_kept_no_longer_than_people_read() {
    assert_eq!(tamed(&["secret"], &"x".repeat(3 << 20)).len(), TEXT_BYTES_MAX);
}
