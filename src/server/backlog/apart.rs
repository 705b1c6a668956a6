//! A release of several keys, as one release of each key.

use bytes::BytesMut;
use leasehold_resp::{Decoder, Frame, Limits, command_len, encode_command};

use crate::net::owed::Owed;

/// What is owed of several keys that are on two nodes, of each key by itself: a script that does the
/// same to each of its keys. What is owed of one key is on one node, and comes back as it is.
pub(super) fn by_key(owed: &Owed) -> Vec<Owed> {
    let mut bytes = BytesMut::from(&owed.command[..]);
    let Ok(Some(Frame::Array(words))) = Decoder::new(Limits::default()).decode(&mut bytes) else {
        return vec![owed.clone()];
    };
    let words: Vec<&[u8]> = words.iter().filter_map(Frame::as_bytes).map(|word| &**word).collect();
    let [b"EVAL", script, count, rest @ ..] = &words[..] else { return vec![owed.clone()] };
    let count = std::str::from_utf8(count).ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    let (keys, arguments) = rest.split_at(rest.len().min(count));
    let of_key = |key: &&[u8]| {
        let words = [&[b"EVAL", *script, b"1", *key], arguments].concat();
        let mut command = BytesMut::with_capacity(command_len(&words));
        encode_command(&mut command, &words);
        Owed { command: command.freeze(), ..owed.clone() }
    };
    keys.iter().map(of_key).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::net::proof::Expected;
    use crate::policy::{Moment, Redelivery};

    fn owed(words: &[&[u8]]) -> Owed {
        let mut command = BytesMut::new();
        encode_command(&mut command, words);
        let again = Redelivery::new(Moment::from_nanos(7), false);
        let (command, expected) = (command.freeze(), Expected::Stamp);
        Owed { command, expected, slot: 3, again }
    }

    #[test]
    fn a_script_of_several_keys_becomes_one_for_each() {
        let all = owed(&[b"EVAL", b"text", b"2", b"a", b"b", b"owner", b"before"]);
        let [a, b]: [&[u8]; 2] = [b"a", b"b"];
        let each = [a, b].map(|key| owed(&[b"EVAL", b"text", b"1", key, b"owner", b"before"]));
        assert_eq!(by_key(&all), each);
        assert_eq!(by_key(&each[0]), each[..1]);
    }

    #[test]
    fn what_is_no_script_stays_as_it_is() {
        for words in [&[&b"SET"[..], b"a", b"b"][..], &[b"EVAL", b"text"]] {
            let owed = owed(words);
            assert_eq!(by_key(&owed), [owed]);
        }
        let broken = Owed { command: Bytes::from_static(b"*9\r\n"), ..owed(&[b"PING"]) };
        assert_eq!(by_key(&broken), [broken]);
    }
}
