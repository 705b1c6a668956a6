//! How the command `leasehold` meets its servers: passwords, certificates, and what it refuses.

use crate::command::{code, end, leasehold, output, stderr, stdout};
use crate::processes::{Directory, parent};
use leasehold_testing::sentinel::Passwords;
use leasehold_testing::{Authority, RedisServer, Sentinels, eventually, soon};
use tokio::process::Command;

fn guarded() -> RedisServer {
    RedisServer::builder().arg("--requirepass").arg("secret").start()
}

/// What any user can see of a process.
fn seen(id: &str) -> String {
    let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap();
    String::from_utf8(words).unwrap().replace('\0', " ")
}

#[tokio::test]
async fn a_password_in_a_url_is_seen_by_nobody() {
    let (server, directory) = (guarded(), Directory::new());
    let url = format!("redis://:secret@{}", server.address());
    let script = "env; echo $$ > id; while [ ! -e stop ]; do sleep 0.01; done";
    for (variable, words) in [("", vec!["-u", &url]), (&*url, vec![])] {
        let words = [&words[..], &["run", "job", "sh", "-c", script]].concat();
        let mut running = leasehold(variable, &words);
        if variable.is_empty() {
            running.env_remove("LEASEHOLD_URL");
        }
        let running = running.current_dir(&directory.0).spawn().unwrap();
        eventually("it runs", || directory.number("id").is_some()).await;
        let keeper = parent(&directory.number("id").unwrap()).unwrap();
        let front = parent(&keeper).unwrap();
        assert_eq!(front, running.id().unwrap().to_string());
        for (id, name) in [(&front, "leasehold\n"), (&keeper, "lease-keeper\n")] {
            let known = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap();
            assert_eq!(known, name, "for pgrep");
        }
        for seen in [seen(&keeper), seen(&front)] {
            assert!(!seen.contains("secret") && seen.contains(" run job "), "{seen}");
        }
        directory.write("stop", "");
        let done = end(running).await;
        assert!(code(&done) == 0 && !stdout(&done).contains("secret"), "{done:?}");
        assert!(stdout(&done).contains("LEASEHOLD_FENCE"));
        directory.remove("stop");
        directory.remove("id");
    }
    // One without a password is for commands that take locks themselves.
    let server = RedisServer::start();
    let done = output(&mut leasehold(&server.url(), &["run", "job", "env"])).await;
    assert!(stdout(&done).contains(&format!("LEASEHOLD_URL={}\n", server.url())), "{done:?}");
}

#[tokio::test]
async fn a_password_comes_from_a_file_or_a_descriptor() {
    let (server, directory) = (guarded(), Directory::new());
    directory.write("password", "secret\n");
    directory.write("wrong", "other\n");
    server.cli(&["ACL", "SETUSER", "me", "on", ">mine", "+@all", "~*", "&*"]);
    directory.write("mine", "mine");
    let url = format!("redis://{}", server.address());
    let cases: [(&[&str], i32); 5] = [
        (&["--password-file", "password"], 0),
        (&["--user", "me", "--password-file", "mine"], 0),
        (&["--password-file", "wrong"], 77),
        (&["--password-file", "missing"], 66),
        (&["--user", "me"], 78),
    ];
    for (words, expected) in cases {
        let words = [words, &["run", "job", "true"]].concat();
        let done = output(leasehold(&url, &words).current_dir(&directory.0)).await;
        assert_eq!(code(&done), expected, "{words:?}: {done:?}");
        assert!(!stderr(&done).contains("other"), "{done:?}");
    }
    let binary = env!("CARGO_BIN_EXE_leasehold");
    for file in ["/dev/fd/3", "/dev/stdin"] {
        let line = format!("cat password | {binary} --password-file {file} run job echo mine 3<&0");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(&directory.0).env("LEASEHOLD_URL", &url);
        let done = output(shell.kill_on_drop(true)).await;
        assert_eq!((code(&done), &*stdout(&done)), (0, "mine\n"), "{file}: {done:?}");
    }
}

#[tokio::test]
async fn sentinels_may_have_a_password_of_their_own() {
    let passwords = Passwords { servers: Some("secret".into()), sentinels: Some("other".into()) };
    let (sentinels, directory) = (Sentinels::start_with(passwords), Directory::new());
    directory.write("other", "other\n");
    let own = ["--sentinel-user", "default", "--sentinel-password-file", "other"];
    for (words, expected) in [(&own[..], 0), (&own[2..], 0), (&[], 77), (&own[..2], 78)] {
        let words = [words, &["run", "job", "true"]].concat();
        let done = output(leasehold(&sentinels.url(), &words).current_dir(&directory.0)).await;
        assert_eq!(code(&done), expected, "{words:?}: {done:?}");
        let names_it = stderr(&done).contains("--sentinel-password-file");
        assert_eq!(names_it, expected != 0, "{words:?}: {done:?}");
    }
}

#[tokio::test]
async fn servers_and_we_are_known_by_certificates() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let (theirs, ours) = (authority.issue(&["127.0.0.1"]), authority.issue(&["we"]));
    let server = RedisServer::builder().mutual_tls(&theirs, &authority.pem()).start();
    directory.write("ca.pem", &authority.pem());
    directory.write("cert.pem", &ours.chain);
    directory.write("key.pem", &ours.key);
    let url = server.tls_url("127.0.0.1");
    let known = ["--ca", "ca.pem", "--cert", "cert.pem", "--key", "key.pem"];
    let binary = env!("CARGO_BIN_EXE_leasehold");
    let piped = format!(
        "{binary} --ca <(cat ca.pem) --cert <(cat cert.pem) --key <(cat key.pem) run job true"
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &piped]).current_dir(&directory.0).env("LEASEHOLD_URL", &url);
    let done = output(shell.kill_on_drop(true)).await;
    assert_eq!(code(&done), 0, "{done:?}");
    for (words, expected) in [(&known[..], 0), (&known[2..], 77), (&known[..4], 78)] {
        let words = [words, &["run", "job", "true"]].concat();
        let done = output(leasehold(&url, &words).current_dir(&directory.0)).await;
        assert_eq!(code(&done), expected, "{words:?}: {done:?}");
    }
    let unknown = output(&mut leasehold(&url, &["run", "job", "true"])).await;
    assert!(
        stderr(&unknown).contains("unknown CA") && stderr(&unknown).contains("--ca"),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn what_the_doctor_advises_can_be_asked_of_run() {
    let server = RedisServer::builder().wall_clock().start();
    server.set_wall_clock(3600);
    let run = async |words: &[&str]| {
        let words = [words, &["run", "-n", "job", "true"]].concat();
        let done = output(&mut leasehold(&server.url(), &words)).await;
        (code(&done), stderr(&done))
    };
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    assert_eq!(run(&[]).await.0, 0);
    let (refused, why) = run(&["--refuse-evicting"]).await;
    assert!(refused != 0 && why.contains("allkeys-lru"), "{why}");
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(run(&["--restart-quarantine", "on"]).await, (0, String::new()));
    server.set_wall_clock(0);
    let (refused, why) = run(&["--restart-quarantine", "on"]).await;
    assert!(refused != 0 && why.contains("restart"), "{why}");
    assert_eq!(run(&["--restart-quarantine", "off"]).await, (0, String::new()));
}

/// As a shell puts a variable together of others that are empty.
#[tokio::test]
async fn spaces_around_urls_are_none_and_no_url_is_an_error() {
    let server = RedisServer::start();
    let url = server.url();
    for urls in [format!(" {url}"), format!("{url} "), format!("{url}  ")] {
        let done = output(&mut leasehold(&urls, &["run", "-n", "a", "true"])).await;
        assert_eq!((code(&done), &*stderr(&done)), (0, ""), "{urls:?}");
    }
    let other = RedisServer::start();
    let both = format!("{url}  {}", other.url());
    let done =
        output(&mut leasehold(&both, &["--restart-quarantine", "off", "run", "a", "true"])).await;
    assert_eq!((code(&done), &*stderr(&done)), (0, ""));
    for urls in ["", " "] {
        let done = output(&mut leasehold(urls, &["run", "-n", "a", "true"])).await;
        assert!(code(&done) == 78 && stderr(&done).contains("LEASEHOLD_URL"), "{done:?}");
    }
}

#[tokio::test]
async fn a_password_file_may_begin_with_a_mark_of_its_encoding() {
    let server = RedisServer::builder().arg("--requirepass").arg("secret").start();
    let directory = Directory::new();
    directory.write("password", "\u{feff}secret\r\n");
    let file = directory.file("password");
    let url = format!("redis://{}", server.address());
    let words = ["--password-file", file.to_str().unwrap(), "run", "-n", "a", "true"];
    let done = output(&mut leasehold(&url, &words)).await;
    assert_eq!((code(&done), &*stderr(&done)), (0, ""));
}

/// Of files: a runtime would panic.
#[tokio::test]
async fn a_process_that_may_open_too_few_files_says_so() {
    let binary = env!("CARGO_BIN_EXE_leasehold");
    for files in [4, 6, 8] {
        let line = format!("ulimit -n {files}; exec {binary} inspect a");
        let mut shell = tokio::process::Command::new("sh");
        let done = output(shell.args(["-c", &line]).env("RUST_BACKTRACE", "0")).await;
        assert_eq!(code(&done), 71, "{done:?}");
        assert!(stderr(&done).starts_with("leasehold: no runtime could be started: "), "{done:?}");
    }
}

/// The first attempt to connect reads the pipe.
#[tokio::test]
async fn a_password_from_a_descriptor_is_kept_for_servers_that_are_down_at_first() {
    let mut server = RedisServer::builder().arg("--requirepass").arg("secret").start();
    let url = format!("redis://{}", server.address());
    server.kill();
    let script = format!(
        "exec {} -u {url} --password-file <(echo secret) run -w 1m job echo mine",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &script])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = bash.kill_on_drop(true).spawn().unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    server.restart();
    let done = soon("its end", child.wait_with_output()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "mine\n", "{done:?}");
}
