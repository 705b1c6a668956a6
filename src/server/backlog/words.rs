//! A release in other words: of each of its keys by itself, or with its script.

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_command};

use crate::net::owed::Owed;
use crate::policy::number;

/// What is owed of several keys that are on two nodes, of each key by itself: a script that does the
/// same to each of its keys. What is owed of one key is on one node, and comes back as it is.
pub(super) fn by_key(owed: &Owed) -> Vec<Owed> {
    let words = words_of(owed);
    let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
    let [verb @ (b"EVAL" | b"EVALSHA"), script, count, rest @ ..] = &words[..] else {
        return vec![owed.clone()];
    };
    let count = number(count).unwrap_or(0);
    let (keys, arguments) = rest.split_at(rest.len().min(count));
    let of_key = |key: &&[u8]| {
        let words = [&[*verb, *script, b"1", *key], arguments].concat();
        Owed { command: encoded(&words), ..owed.clone() }
    };
    keys.iter().map(of_key).collect()
}

/// The same, which no server can fail to know.
pub(super) fn whole(owed: &Owed) -> Owed {
    let Some(script) = &owed.script else { return owed.clone() };
    let words = words_of(owed);
    let arguments = words.iter().skip(2).map(|word| &**word);
    let words: Vec<&[u8]> = [b"EVAL", script.as_bytes()].into_iter().chain(arguments).collect();
    Owed { command: encoded(&words), script: None, ..owed.clone() }
}

/// The keys that it is about, and the owner that it names.
pub(super) fn keys_and_owner(owed: &Owed) -> (Vec<Bytes>, Bytes) {
    let words = words_of(owed);
    let (count, rest) = match &words[..] {
        [verb, _, count, rest @ ..] if verb.starts_with(b"EVAL") => {
            (number(count).unwrap_or(0), rest)
        }
        [_, rest @ ..] => {
            return (
                rest.first().cloned().into_iter().collect(),
                rest.last().cloned().unwrap_or_default(),
            );
        }
        [] => (0, &[][..]),
    };
    let (keys, arguments) = rest.split_at(rest.len().min(count));
    (keys.to_vec(), arguments.first().cloned().unwrap_or_default())
}

fn encoded(words: &[&[u8]]) -> Bytes {
    let mut encoded = BytesMut::new();
    encode_command(&mut encoded, words);
    encoded.freeze()
}

fn words_of(owed: &Owed) -> Vec<Bytes> {
    let mut bytes = BytesMut::from(&owed.command[..]);
    match Decoder::new(Limits::default()).decode(&mut bytes) {
        Ok(Some(Frame::Array(words))) => {
            words.iter().filter_map(Frame::as_bytes).cloned().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::proof::Expected;
    use crate::policy::{Moment, Redelivery};

    fn owed(words: &[&[u8]]) -> Owed {
        let again = Redelivery::new(Moment::from_nanos(7), false);
        let (command, expected) = (encoded(words), Expected::Stamp);
        Owed {
            command,
            script: None,
            is_by_key: true,
            expected,
            slot: 3,
            again,
            counted: std::sync::Arc::default(),
        }
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
    fn what_calls_a_script_by_its_digest_is_sent_with_the_script() {
        let script = Some("text");
        let short = Owed { script, ..owed(&[b"EVALSHA", b"digest", b"2", b"a", b"b", b"owner"]) };
        let long = owed(&[b"EVAL", b"text", b"2", b"a", b"b", b"owner"]);
        assert_eq!(whole(&short), long);
        assert_eq!(whole(&long), long);
        let each = by_key(&short).iter().map(whole).collect::<Vec<_>>();
        assert_eq!(each, by_key(&long));
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
