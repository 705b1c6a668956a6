//! Servers of another Cluster, which come to the addresses of those that are known, or take the place of all.

use super::super::super::core::Settings;
use super::super::super::tests::options_of;
use super::*;

const OURS: NodeId = [b'1'; 40];
const THEIRS: NodeId = [b'2'; 40];
const NEW: NodeId = [b'3'; 40];

fn nodes_of(reply: &Frame) -> Option<Vec<NodeId>> {
    let Frame::Array(nodes) = reply else { return None };
    Some(nodes.iter().map(|node| node.as_bytes().unwrap()[..].try_into().unwrap()).collect())
}

fn naming(nodes: &[NodeId]) -> Frame {
    Frame::Array(nodes.iter().map(bulk).collect())
}

fn unmet() -> Bench {
    let mut bench = Bench::new(2, Settings { nodes_of: Some(nodes_of), ..settings(1) });
    bench.machine.routes_by(ROUTING);
    bench
}

/// A server is met that answers so when it is asked which nodes it knows; the digests of what it is asked at once.
fn meet(bench: &mut Bench, server: usize, nodes: &Frame) -> Vec<Bytes> {
    bench.machine.disconnected(server, Fault::Closed, bench.now);
    bench.dial(server, Login::default());
    let mut asked = Vec::new();
    bench.answer(server, |command| match &command[0][..] {
        b"CLUSTER" => vec![nodes.clone()],
        b"EVALSHA" => {
            asked.push(command[1].clone());
            Vec::new()
        }
        _ => vec![greeting(command, "")],
    });
    asked
}

/// Whether it serves then.
fn serves(bench: &mut Bench, server: usize, nodes: &Frame) -> bool {
    meet(bench, server, nodes);
    bench.machine.serves(server)
}

/// A map names these nodes.
fn led(bench: &mut Bench, nodes: &[NodeId]) {
    let masters = ["0".into(), "1".into()];
    bench.machine.route(&masters, nodes, &|_| Some(0), bench.now);
}

/// Whether one that a server says that may be none of these.
fn is_led(bench: &mut Bench, nodes: &[NodeId]) -> bool {
    let is_believed = bench.machine.are_nodes(nodes, bench.now);
    if is_believed {
        led(bench, nodes);
    }
    is_believed
}

#[test]
fn a_server_serves_that_names_a_node_of_the_cluster_or_no_nodes() {
    let mut bench = unmet();
    assert!(serves(&mut bench, 0, &naming(&[])), "nobody is known yet");
    assert!(serves(&mut bench, 0, &naming(&[OURS])));
    let no_node = error("ERR This instance has cluster support disabled");
    for (is_served, answer) in [
        (true, naming(&[NEW, OURS])),
        (false, naming(&[THEIRS])),
        (false, naming(&[])),
        (false, no_node),
        (true, error("NOPERM of a test")),
        (true, error("ERR unknown command 'CLUSTER'")),
        (true, Frame::Simple("OK".into())),
    ] {
        assert_eq!(serves(&mut bench, 0, &answer), is_served, "{answer:?}");
        let is_refused = bench.machine.links[0].fault == Some(Fault::Unfit(Unfit::NoNode));
        assert_eq!(is_refused, !is_served, "{answer:?}");
    }
    assert!(!serves(&mut bench, 0, &error("LOADING it")));
}

#[test]
fn the_nodes_that_are_known_are_those_of_the_last_map() {
    let mut bench = unmet();
    assert!(is_led(&mut bench, &[OURS]) && is_led(&mut bench, &[OURS, NEW]));
    assert!(serves(&mut bench, 0, &naming(&[NEW])));
    assert!(is_led(&mut bench, &[]), "those of some services have no names");
    assert!(is_led(&mut bench, &[NEW]) && !is_led(&mut bench, &[OURS]));
    assert!(!serves(&mut bench, 0, &naming(&[OURS])));
    // As one of them says that has given all slots to others.
    led(&mut bench, &[OURS]);
    assert!(serves(&mut bench, 0, &naming(&[OURS])) && !serves(&mut bench, 0, &naming(&[NEW])));
}

#[test]
fn others_take_the_place_of_all_once_none_of_them_has_answered_for_long_enough() {
    let mut bench = unmet();
    assert!(is_led(&mut bench, &[OURS]) && serves(&mut bench, 0, &naming(&[OURS])));
    assert!(!is_led(&mut bench, &[THEIRS]));
    bench.now = bench.now.after(OTHERS_AFTER);
    assert!(!is_led(&mut bench, &[THEIRS]), "one of them is there");
    assert!(!serves(&mut bench, 0, &naming(&[THEIRS])));
    assert!(!is_led(&mut bench, &[THEIRS]));
    assert!(serves(&mut bench, 1, &naming(&[OURS])));
    bench.close(1);
    bench.pass(OTHERS_AFTER);
    assert!(!is_led(&mut bench, &[THEIRS]), "one of them was there");
    bench.pass(OTHERS_AFTER);
    assert!(is_led(&mut bench, &[THEIRS]));
    assert!(serves(&mut bench, 0, &naming(&[THEIRS])) && !serves(&mut bench, 1, &naming(&[OURS])));
}

#[test]
fn a_lease_is_looked_for_at_those_that_have_taken_the_place_of_all() {
    let mut bench = unmet();
    assert!(is_led(&mut bench, &[OURS]) && serves(&mut bench, 0, &naming(&[OURS])));
    let term = Term::new(10 * OTHERS_AFTER, None).unwrap();
    let options = Options { term, ..options_of(&FENCED, b"a", Wait::Never, Bounds::default()) };
    let id = bench.machine.acquire(options, bench.now);
    let (_, asked) = the_one(&mut bench, 0);
    bench.reply(0, &stamp(&asked));
    assert_eq!(granted(&mut bench, id), Some(true));
    assert!(meet(&mut bench, 0, &naming(&[OURS])).is_empty(), "they have it still");

    bench.close(0);
    assert!(!is_led(&mut bench, &[THEIRS]));
    bench.pass(OTHERS_AFTER);
    assert!(is_led(&mut bench, &[THEIRS]));
    let extend = bench.machine.settings().scripts.extend.digest;
    assert_eq!(meet(&mut bench, 0, &naming(&[THEIRS])), [extend]);
}
