use super::*;

/// The texts of Redis 7.0, 6.2 and 7.4, about a command, one in a script, and keys.
#[test]
fn a_missing_right_is_named_with_what_to_grant() {
    let script = "local a = redis.call('GET', KEYS[1])\nredis.call('PTTL', KEYS[1])";
    let cases: &[(&str, &str)] = &[
        ("NOPERM this user has no permissions to run the 'evalsha' command", "+evalsha"),
        (
            "NOPERM this user has no permissions to run the 'client|tracking' command",
            "+client|tracking",
        ),
        (
            "NOPERM this user has no permissions to run the 'eval' command or its subcommand",
            "+eval",
        ),
        ("NOPERM User u has no permissions to run the 'set' command", "+set"),
        (
            "ERR The user executing the script can't run this command or subcommand script: 62, on @user_script:2.",
            "+pttl",
        ),
        (
            "ERR Error running script (call to f_62): @user_script:1: @user_script: 1: The user executing the script can't run this command or subcommand\n",
            "+get",
        ),
        (
            "NOPERM ACL failure in script: User u has no permissions to run the 'del' command script: 62, on @user_script:1.",
            "+del",
        ),
        (
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "~a ~{a}:fence",
        ),
        ("NOPERM No permissions to access a key", "~a ~{a}:fence"),
        (
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 62, on @user_script:1.",
            "~a ~{a}:fence",
        ),
        (
            "ERR The user executing the script can't run this command or subcommand",
            "what docs/acl.md lists",
        ),
        (
            "ERR The user executing the script can't run this command or subcommand script: 62, on @user_script:9.",
            "what docs/acl.md lists",
        ),
    ];
    for (text, right) in cases {
        let error = ServerError::new(text.as_bytes()).about(script, &[b"a", b"{a}:fence"]);
        let expected = format!("{}; grant the user {right}", Shown(text.trim_end()));
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.code(), Code::Permission);
    }
    let unknown = "ERR Unknown Redis command called from script script: 62, on @user_script:2.";
    let unknown = ServerError::new(unknown.as_bytes()).about(script, &[]).to_string();
    assert!(unknown.ends_with("; no script may call PTTL on this server (docs/managed.md)"));
    let other = ServerError::new(b"LOADING x").about(script, &[b"a"]).lacking("+get".into());
    assert_eq!(other.to_string(), "LOADING x");
}

#[test]
fn a_sentinel_has_a_login_of_its_own() {
    for text in ["NOAUTH x", "WRONGPASS x", "ERR Client sent AUTH, but no password is set"] {
        let error = ServerError::new(text.as_bytes());
        assert!(!error.to_string().contains("Sentinels"), "{error}");
        #[cfg(feature = "sentinel")]
        assert!(error.of_sentinel().to_string().contains("sentinel_credentials"));
    }
}

#[test]
fn a_hostile_error_cannot_write_to_a_terminal() {
    let error = ServerError::new(b"ERR \x1b[2Jgone\xff");
    assert_eq!(error.to_string(), "ERR \\u{1b}[2Jgone\u{fffd}");
}
