//! `--failover-grace`, of `leasehold run` and `leasehold doctor`.

use leasehold::examine::{Check, Severity};
use leasehold_testing::rights::{self, PREFIX};
use leasehold_testing::{Cluster, RedisServer};

use crate::command::{code, leasehold, output, stderr, stdout};
use crate::doctor::{doctor, examine, finding, fit, of, wrong};

/// Its present reign began when clocks did.
fn has_reigned_for_long(server: &RedisServer, marker: &str) {
    let info = server.cli_text(&["INFO", "everything"]);
    let field = |name: &str| {
        let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
        info.lines().find_map(value).expect("a server says that")
    };
    let reign = format!("{} {} 1", field("run_id"), field("master_replid"));
    server.cli(&["SET", marker, &reign]);
}

#[tokio::test]
async fn the_first_run_begins_a_grace_and_the_doctor_says_until_when() {
    let server = fit();
    let grace = ["--failover-grace", "1h"];
    let said = doctor(&server.url(), &grace).await;
    assert_eq!(code(&said), 0, "{said:?}");
    assert!(stdout(&said).contains("begins a grace of 1 h"), "{said:?}");
    let run = async |words: &[&str]| {
        output(leasehold(&server.url(), &["run"]).args(words).args(["-n", "job", "true"])).await
    };
    let refused = run(&grace).await;
    assert_eq!(code(&refused), 69, "{refused:?}");
    assert!(stderr(&refused).contains("the primary changed"), "{refused:?}");
    let said = doctor(&server.url(), &grace).await;
    let table = stdout(&said);
    assert!(code(&said) == 1 && table.contains("in its grace"), "{table}");
    assert!(table.contains("the only server may not grant locks yet"), "{table}");
    // One without the setting has no part in it.
    assert_eq!(code(&run(&[]).await), 0);
    has_reigned_for_long(&server, "{leasehold}:reign");
    assert_eq!(code(&run(&grace).await), 0);
    let said = doctor(&server.url(), &grace).await;
    assert!(code(&said) == 0 && stdout(&said).contains("it has been the primary for"), "{said:?}");
    // A lease that would outlast the grace.
    let longer = run(&["--failover-grace", "5s", "--ttl", "6s"]).await;
    assert!(code(&longer) == 78 && stderr(&longer).contains("longest TTL"), "{longer:?}");
}

#[tokio::test]
async fn the_doctor_names_what_keeps_a_user_from_having_a_grace() {
    let server = fit();
    let builder = of([rights::url(&server)]).key_prefix(PREFIX).failover_grace(true);
    let all = [rights::of("waiting"), rights::row("grace")].concat();
    rights::grant(&server, &all);
    let examination = examine(&builder).await;
    assert_eq!(finding(&examination, 0, Check::Grace).severity, Severity::Note);
    assert_eq!(wrong(&examination), []);
    for right in ["~{app:leasehold}:reign", "+info|replication"] {
        let others: Vec<_> = all.iter().filter(|rule| *rule != right).cloned().collect();
        rights::grant(&server, &others);
        let lacking = finding(&examine(&builder).await, 0, Check::Grace).clone();
        assert_eq!(lacking.severity, Severity::Error, "{right}: {lacking}");
        let cure = lacking.cure.unwrap();
        assert!(cure.contains("the user worker") && cure.contains("docs/acl.md"), "{cure}");
    }
    assert_eq!(server.cli_text(&["EXISTS", "{app:leasehold}:reign"]), "0", "nothing is begun");
}

#[tokio::test]
async fn each_master_of_a_cluster_is_said_to_be_in_its_grace_or_not() {
    let cluster = Cluster::start();
    let markers = (0..).map(|number| format!("{{leasehold:{number}}}:reign"));
    let of_first = |marker: &String| cluster.master_of(cluster.slot(marker)) == 0;
    has_reigned_for_long(&cluster[0], &markers.into_iter().find(of_first).unwrap());
    let examination = examine(&of([cluster.url()]).failover_grace(true)).await;
    let first = cluster[0].address().to_string();
    for (place, server) in examination.servers.iter().enumerate() {
        let grace = finding(&examination, place, Check::Grace);
        let severity = if server.server == first { Severity::Ok } else { Severity::Note };
        assert_eq!(grace.severity, severity, "{}: {grace}", server.server);
    }
    assert!(examination.servers.iter().any(|server| server.server == first));
}
