use super::*;
use crate::support::recorded::{self, Recorded};

const RULES: Rules = Rules {
    restart_quarantine: Some(Duration::from_secs(10)),
    strict: false,
    in_cluster: false,
    by_sentinels: false,
};

fn standing_of(info: &str, rules: Rules) -> Standing {
    let now = Moment::from_nanos(0).after(Duration::from_secs(100));
    Facts::parse(info).unwrap().judge(rules, now, None, now)
}

/// What a server said in this mode, with its age fixed and these changes.
fn info(of: &Recorded, mode: &str, changes: &[(&str, &str)]) -> String {
    let aged = recorded::with(&of.info(mode), "uptime_in_seconds", "500");
    recorded::with_each(&aged, changes)
}

/// The same of every server that was recorded.
#[track_caller]
fn standing(changes: &[(&str, &str)], rules: Rules) -> Standing {
    let all = recorded::all();
    let each = all.iter().map(|of| standing_of(&info(of, "standalone", changes), rules));
    let mut each = each.collect::<Vec<_>>();
    each.dedup();
    assert_eq!(each.len(), 1, "{each:?}");
    each.remove(0)
}

#[test]
fn a_master_that_has_run_for_long_is_fit() {
    assert_eq!(standing(&[], RULES), Standing::Fit);
}

#[test]
fn replicas_and_cluster_nodes_are_unfit() {
    for of in recorded::all() {
        let replica = standing_of(&info(&of, "replica", &[]), RULES);
        assert_eq!(replica, Standing::Unfit(Unfit::Replica), "{}", of.name);
        let named = Rules { by_sentinels: true, ..RULES };
        assert_eq!(
            standing_of(&info(&of, "replica", &[]), named),
            Standing::Unfit(Unfit::NamedReplica)
        );
        let node = info(&of, "cluster", &[]);
        assert_eq!(standing_of(&node, RULES), Standing::Unfit(Unfit::ClusterNode));
        assert_eq!(standing_of(&node, Rules { in_cluster: true, ..RULES }), Standing::Fit);
    }
}

#[test]
fn a_server_that_evicts_is_warned_of_and_refused_where_that_is_asked() {
    let evicts = [("maxmemory_policy", "allkeys-lru")];
    assert_eq!(standing(&evicts, RULES), Standing::Fit);
    let server = &recorded::all()[0];
    let warning = Facts::parse(&info(server, "standalone", &evicts)).unwrap().warning();
    assert_eq!(warning, Some(Unfit::Evicts("allkeys-lru".into())));
    let strict = Rules { strict: true, ..RULES };
    assert_eq!(standing(&evicts, strict), Standing::Unfit(warning.unwrap()));
    assert_eq!(standing(&[], strict), Standing::Fit);
}

#[test]
fn a_server_that_has_just_started_is_quarantined_unless_the_guard_is_off() {
    let young = [("uptime_in_seconds", "3")];
    let until = Moment::from_nanos(0).after(Duration::from_secs(108));
    assert_eq!(standing(&young, RULES), Standing::Quarantined { until });
    let unguarded = Rules { restart_quarantine: None, ..RULES };
    assert_eq!(standing(&young, unguarded), Standing::Fit);
    let stepped = [("uptime_in_seconds", "-3596")];
    let until = Moment::from_nanos(0).after(Duration::from_secs(110));
    assert_eq!(standing(&stepped, RULES), Standing::Quarantined { until });
}

#[test]
fn what_cannot_be_read_is_named() {
    for of in recorded::all() {
        let whole = info(&of, "standalone", &[]);
        for (field, named) in [
            ("run_id", "run_id"),
            ("uptime_in_seconds", "uptime_in_seconds"),
            ("role", "role"),
            ("maxmemory_policy", "maxmemory_policy"),
            ("redis_mode", MODE_FIELD),
            ("server_mode", MODE_FIELD),
        ] {
            let lacking = recorded::without(&whole, field);
            if lacking != whole {
                assert_eq!(Facts::parse(&lacking), Err(Unfit::Unreadable(named)), "{}", of.name);
            }
        }
        let soon = recorded::with(&whole, "uptime_in_seconds", "soon");
        assert_eq!(Facts::parse(&soon), Err(Unfit::Unreadable("uptime_in_seconds")));
    }
}
