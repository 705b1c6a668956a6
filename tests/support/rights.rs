//! The rights that a Redis user needs, read from the table in `docs/acl.md`, so that tests check the page.

/// The prefix of the page's keys.
pub const PREFIX: &str = "app:";
/// The page's modes of servers at fixed addresses; each needs the rights of those before it too.
pub const MODES: [&str; 5] = ["unfenced", "fenced", "waiting", "several", "database"];

fn page() -> String {
    std::fs::read_to_string(super::repository("docs/acl.md")).expect("the page is there")
}

/// The rules of a mode and of those before it.
pub fn of(mode: &str) -> Vec<String> {
    let last = MODES.iter().position(|known| *known == mode).expect("the page has the mode");
    MODES[..=last].iter().flat_map(|mode| row(mode)).collect()
}

/// The rules of a mode alone.
pub fn row(mode: &str) -> Vec<String> {
    let (page, begins) = (page(), format!("| {mode} |"));
    let row = page.lines().find(|line| line.starts_with(&begins)).expect("the table has the mode");
    let (_, rules) = row.trim_end_matches([' ', '|', '`']).rsplit_once('`').expect("its last cell");
    rules.replace("\\|", "|").split(' ').map(str::to_owned).collect()
}

/// The line of the page, or of the README, with all rights for one server.
pub fn line(page: &str) -> Vec<String> {
    let line = page
        .lines()
        .find_map(|line| line.split_once("ACL SETUSER locker reset resetchannels on >SECRET "));
    let (_, rules) = line.expect("the page has the line");
    rules.trim_end_matches('`').split(' ').map(str::to_owned).collect()
}

/// Makes `worker`, with the password `pw`, a user with exactly these rules.
pub fn grant(server: &super::RedisServer, rules: &[String]) {
    let rules = rules.iter().map(String::as_str);
    let command: Vec<&str> = ["ACL", "SETUSER", "worker", "reset", "resetchannels", "on", ">pw"]
        .into_iter()
        .chain(rules)
        .collect();
    assert_eq!(server.cli_text(&command), "OK");
}

/// The server's URL for that user.
pub fn url(server: &super::RedisServer) -> String {
    format!("redis://worker:pw@{}", server.address())
}
