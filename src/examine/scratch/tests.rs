use bytes::Bytes;

use super::*;

fn outcome(trial: &Trial<'_>, text: &'static str) -> TrialOutcome {
    trial.judge(&Frame::Error(Bytes::from_static(text.as_bytes()))).outcome
}

fn lacking(right: &str) -> TrialOutcome {
    TrialOutcome::Lacking(right.to_owned())
}

#[test]
fn the_keys_are_a_locks_own_and_nobody_elses() {
    let (one, other) =
        (Scratch::new(b"app:", &[], false).unwrap(), Scratch::new(b"app:", &[], false).unwrap());
    assert_ne!(one.names.lock(), other.names.lock());
    let lock = String::from_utf8(one.names.lock().to_vec()).unwrap();
    assert!(lock.starts_with("app:leasehold-doctor:"), "{lock}");
    assert_eq!(one.key(":queue"), format!("{{{lock}}}:queue").as_bytes());
    let patterns = |prefix: &[u8]| {
        let scratch = Scratch::new(prefix, &[], false).unwrap();
        ["", ":fence", ":queue"].map(|suffix| scratch.pattern(suffix))
    };
    assert_eq!(patterns(b"app:"), ["~app:*", "~{app:*}:fence", "~{app:*}:queue"]);
    assert_eq!(patterns(b"{app}:"), ["~{app}:*"; 3]);
    assert_eq!(patterns(b""), ["~*"; 3]);
    assert!(Scratch::new(b"}", &[], false).is_err());
}

/// Whatever is refused, no key stays for ever: each command that creates one sets its expiry.
#[test]
fn whatever_is_written_ends_by_itself() {
    let scratch = Scratch::new(b"", &Capability::ALL, false).unwrap();
    let own: Vec<_> = scratch.keys[2..].iter().map(|(_, key)| key).collect();
    for trial in scratch.trials(true) {
        let name = trial.words[0];
        if own.iter().any(|key| trial.words.contains(&&key[..])) {
            let harmless: [&[u8]; 4] = [b"GET", b"PEXPIRE", b"UNLINK", b"EXISTS"];
            assert!(harmless.contains(&name), "what is not there is not made");
        }
        if name == b"SET" {
            assert!(trial.words.ends_with(&[b"PX", b"5000"]));
        }
    }
}

#[test]
fn a_missing_right_is_the_commands_or_its_keys() {
    let scratch = Scratch::new(b"app:", &[], false).unwrap();
    let trials = scratch.trials(false);
    let trial = |verb: &[u8]| trials.iter().find(|trial| trial.words[0] == verb).unwrap();
    let command = "NOPERM this user has no permissions to run the 'x' command";
    let key = "NOPERM this user has no permissions to access one of the keys used as arguments";
    assert_eq!(outcome(trial(b"SET"), command), lacking("+set"));
    assert_eq!(outcome(trial(b"SET"), key), lacking("~app:*"));
    assert_eq!(outcome(trial(b"HGET"), key), lacking("~{app:*}:queue"));
    assert_eq!(outcome(trial(b"SCRIPT"), command), lacking("+script|load"));
    let channel =
        "NOPERM this user has no permissions to access one of the channels used as arguments";
    assert_eq!(outcome(trial(b"PUBLISH"), command), lacking("+publish"));
    assert_eq!(outcome(trial(b"PUBLISH"), channel), lacking("&leasehold:*"));
    assert_eq!(
        outcome(trial(b"PUBLISH"), "NOPERM No permissions to access a channel"),
        lacking("&leasehold:*")
    );
    assert!(!trial(b"CLIENT").judge(&Frame::Null).is_essential);
}

#[test]
fn what_is_refused_for_another_reason_is_allowed_or_does_not_work() {
    let scratch = Scratch::new(b"app:", &[], false).unwrap();
    let trials = scratch.trials(true);
    let trial = |verb: &[u8]| trials.iter().find(|trial| trial.words[0] == verb).unwrap();
    assert_eq!(outcome(trial(b"SET"), "MOVED 1 h:1"), TrialOutcome::Elsewhere);
    let full = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(outcome(trial(b"SET"), full), TrialOutcome::Failed(full.to_owned()));
    assert_eq!(outcome(trial(b"EVALSHA"), "NOSCRIPT x"), TrialOutcome::Allowed);
    assert_eq!(outcome(trial(b"HSET"), "WRONGTYPE x"), TrialOutcome::Allowed);
    assert_eq!(outcome(trial(b"CLIENT"), "ERR unknown subcommand"), TrialOutcome::Allowed);
}

#[test]
fn without_scripts_no_right_of_scripts_is_tried() {
    let scratch = Scratch::new(b"app:", &[], true).unwrap();
    let trials = scratch.trials(false);
    let names: Vec<&[u8]> = trials.iter().map(|trial| trial.words[0]).collect();
    let tried: [&[u8]; 8] =
        [b"SET", b"GET", b"SET", b"ECHO", b"TIME", b"CLIENT", b"CLIENT", b"SET"];
    assert_eq!(names, tried);
    let [.., comparing] = &trials[..] else { panic!("{names:?}") };
    assert_eq!(
        outcome(comparing, "ERR syntax error"),
        TrialOutcome::Missing("SET .. IFEQ".to_owned())
    );
    let missing = |at: usize| trials[at].judge(&Frame::Error("ERR unknown command 'x'".into()));
    let essential: Vec<bool> = (0..trials.len()).map(|at| missing(at).is_essential).collect();
    assert_eq!(essential, [true, true, true, false, true, false, false, true]);
}
