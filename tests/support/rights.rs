//! The rights that `docs/acl.md` says a Redis user needs: read from its table, so that the page is
//! what is tested.

/// The prefix of the page's keys.
pub const PREFIX: &str = "app:";
/// Its modes of servers that stay, each of which needs those before it too.
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

/// The page's one line for everything on one server, or the README's.
pub fn line(page: &str) -> Vec<String> {
    let line = page
        .lines()
        .find_map(|line| line.split_once("ACL SETUSER locker reset resetchannels on >SECRET "));
    let (_, rules) = line.expect("the page has the line");
    rules.trim_end_matches('`').split(' ').map(str::to_owned).collect()
}

/// Makes `worker`, with the password `pw`, a user with these rules and no others.
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
