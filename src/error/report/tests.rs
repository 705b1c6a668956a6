use super::*;

#[test]
fn a_holder_with_other_servers_is_found_out() {
    let seen = |configuration, fingerprint| {
        let owner = "00ff".to_owned();
        let holder = Holder {
            owner,
            label: None,
            remaining: None,
            lock_delay: None,
            shared: None,
            is_here: false,
            other_configuration: false,
            configuration,
        };
        holder.seen_from(fingerprint).other_configuration
    };
    let several = |print: &str| Configured::Several(print.into());
    assert!(!seen(Configured::Unknown, Some("a")) && !seen(Configured::Unknown, None));
    assert!(!seen(Configured::Single, None) && seen(Configured::Single, Some("a")));
    assert!(!seen(several("a"), Some("a")));
    assert!(seen(several("a"), Some("b")) && seen(several("a"), None));
}

#[test]
fn a_report_names_server_holder_and_time_left_and_escapes_what_others_wrote() {
    let held = Vote::Held(Some(Holder {
        owner: "00ff".into(),
        label: Some("billing\x1b[31m".into()),
        remaining: Some(Duration::from_millis(3200)),
        lock_delay: Some(Duration::from_millis(3199)),
        shared: None,
        is_here: true,
        other_configuration: false,
        configuration: Configured::Single,
    }));
    let report = Report {
        servers: vec![
            ServerReport {
                server: "a:1".into(),
                vote: held,
                round_trip: Some(Duration::from_micros(120)),
            },
            ServerReport {
                server: "b:2".into(),
                vote: Vote::Failed { kind: FailureKind::Unknown, reason: "no reply".into() },
                round_trip: None,
            },
        ],
    };
    assert_eq!(
        report.to_string(),
        "a:1: held by \"billing\\u{1b}[31m\" for another 3.2 s (120 µs); \
         b:2: no reply"
    );
    assert!(report.has_failure(FailureKind::Unknown));
    assert!(!report.has_failure(FailureKind::Auth));
}
