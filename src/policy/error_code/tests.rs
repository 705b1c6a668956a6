use super::*;

#[test]
fn error_replies_are_known_by_their_first_word() {
    let cases: &[(&str, Code)] = &[
        ("NOAUTH Authentication required.", Code::Auth),
        ("WRONGPASS invalid username-password pair or user is disabled.", Code::Auth),
        ("DENIED Redis is running in protected mode because", Code::Auth),
        ("ERR invalid password", Code::Auth),
        ("ERR Client sent AUTH, but no password is set", Code::Auth),
        ("ERR wrong number of arguments for 'auth' command", Code::Auth),
        ("NOPERM this user has no permissions to run the 'eval' command", Code::Permission),
        ("NOSCRIPT No matching script. Please use EVAL.", Code::NoScript),
        ("AGAIN more entries are to be taken out", Code::Again),
        ("LOADING Redis is loading the dataset in memory", Code::Later),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Code::Apart),
        ("READONLY You can't write against a read only replica.", Code::ReadOnly),
        ("MOVED 3999 127.0.0.1:6381", Code::Elsewhere),
        ("WRONGTYPE Operation against a key", Code::WrongType),
        ("NOPROTO unsupported protocol version", Code::Unsupported),
        ("ERR unknown command 'HELLO'", Code::Unsupported),
        ("ERR unknown command `HELLO`, with args beginning with: `3`", Code::Unsupported),
        ("ERR unsupported command 'hello'", Code::Unsupported),
        (
            "ERR This Redis command is not allowed from script script: 53aa, on @user_script:13.",
            Code::Unscripted,
        ),
        ("ERR Unknown command called from script", Code::Unscripted),
        (
            "ERR Error running script (call to f_620c): @user_script:1: @user_script: 1: Unknown \
              Redis command called from Lua script",
            Code::Unscripted,
        ),
        ("ERR syntax error", Code::Other),
        ("ERR max number of clients reached", Code::Later),
        ("ERR max number of clients + cluster connections reached", Code::Later),
        ("ERR something else", Code::Other),
        (
            "ERR The user executing the script can't run this command or subcommand script: \
              620c, on @user_script:1.",
            Code::Permission,
        ),
        ("ERR ACL failure in script: User u has no permissions to run", Code::Permission),
        (
            "ERR Error running script (call to f_620c): @user_script:1: @user_script: 1: The \
              user executing the script can't run this command or subcommand\n",
            Code::Permission,
        ),
        (
            "ERR Error running script (call to f_620c): @user_script:12: WRONGTYPE Operation",
            Code::WrongType,
        ),
        (
            "ERR Error running script (call to f_620c): @user_script:2: @user_script: 2: \
              -READONLY You can't write against a read only replica.",
            Code::ReadOnly,
        ),
        ("ERR Error running script (call to f_620c): @user_script:2: attempt", Code::Other),
        (
            "@user_script: 164: -OOM command not allowed when used memory > 'maxmemory'.",
            Code::Later,
        ),
        (
            "@user_script: 25: The user executing the script can't run this command or subcommand",
            Code::Permission,
        ),
        ("NOAUTHX", Code::Other),
        ("", Code::Other),
    ];
    for (text, code) in cases {
        assert_eq!(Code::of(text), *code, "{text}");
    }
}
