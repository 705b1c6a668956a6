use super::*;

#[test]
fn a_node_names_a_host_or_itself_or_nobody() {
    assert_eq!(Named::read(b"[::1]"), Some(Named::Host("::1".into())));
    for nowhere in ["", "0.0.0.0", "::", "[::]"] {
        assert_eq!(Named::read(nowhere.as_bytes()), Some(Named::Responder));
    }
    assert_eq!(Named::read(b"?"), Some(Named::Unknown));
    assert_eq!(Named::read(b"a b"), None);
}

#[test]
fn it_is_shown_as_it_is_written_and_read_so() {
    for (place, text) in [(HostPort::new("h", 1), "h:1"), (HostPort::new("::1", 1), "[::1]:1")] {
        assert_eq!(place.to_string(), text);
        assert_eq!(HostPort::read(text), Some(place));
    }
    assert_eq!(HostPort::read("/socket"), None);
}
