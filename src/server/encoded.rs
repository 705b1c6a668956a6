//! A command as it goes out on connections: encoded once, for as many as call its script the same.

use bytes::Bytes;
use leasehold_resp::{parts_len, store_parts};

use super::command::Command;
use crate::net::connection::Connection;

/// Room for the command of one lock with a name of some 40 bytes: up to here nothing is allocated.
const SHORT_BYTES: usize = 512;
/// SHA-1 in hexadecimal, by which servers call scripts.
const DIGEST_BYTES: usize = 40;
/// Of a command that calls no script, or is sent with its text.
const NO_DIGEST: [u8; DIGEST_BYTES] = [0; DIGEST_BYTES];

/// One command to any number of servers.
pub(crate) struct EncodedCommand<'a> {
    command: Command<'a>,
    /// The digest by which the encoded command calls its script. It is copied, as a handle on it would
    /// cost more.
    called: Option<[u8; DIGEST_BYTES]>,
    short: [u8; SHORT_BYTES],
    /// Used where the command is too long for that.
    long: Vec<u8>,
    /// How much of either is used; nothing until it is encoded.
    len: usize,
}

impl<'a> EncodedCommand<'a> {
    pub(crate) fn new(command: Command<'a>) -> Self {
        Self { command, called: None, short: [0; SHORT_BYTES], long: Vec::new(), len: 0 }
    }

    pub(super) fn command(&self) -> Command<'a> {
        self.command
    }

    /// The command as it is to be sent on `connection`.
    pub(super) fn encoded(&mut self, connection: &Connection) -> &[u8] {
        self.encoded_with(self.command.digest(connection))
    }

    fn encoded_with(&mut self, digest: Option<&Bytes>) -> &[u8] {
        // One of another length is not kept: then each connection's command is encoded.
        let called = digest.map_or(Some(NO_DIGEST), |digest| digest[..].try_into().ok());
        if called.is_none() || called != self.called {
            self.encode(digest);
            self.called = called;
        }
        if self.len <= SHORT_BYTES { &self.short[..self.len] } else { &self.long }
    }

    fn encode(&mut self, digest: Option<&Bytes>) {
        let spelled = self.command.spell(digest);
        let parts = spelled.parts();
        self.len = store_parts(&mut self.short, &parts).unwrap_or_else(|| {
            let len = parts_len(&parts);
            self.long.resize(len, 0);
            store_parts(&mut self.long, &parts);
            len
        });
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use leasehold_resp::encode_command;

    use super::*;
    use crate::net::proof::STAMP_ROOM;
    use crate::server::script::Script;

    fn bytes_of(words: &[&[u8]]) -> BytesMut {
        let mut out = BytesMut::new();
        encode_command(&mut out, words);
        out
    }

    #[test]
    fn it_calls_the_script_as_each_connection_does() {
        let script = Script::new(0, "return 1");
        let digests = [b"strange".to_vec(), vec![b'1'; DIGEST_BYTES], vec![b'2'; DIGEST_BYTES]];
        let digests = digests.map(Bytes::from);
        for length in [1, SHORT_BYTES, 2 * SHORT_BYTES] {
            let key = vec![b'k'; length];
            let parameters: [&[u8]; 2] = [b"1", &key];
            let mut encoded = EncodedCommand::new(Command::Script(&script, &parameters));
            let whole = bytes_of(&[b"EVAL", b"return 1", b"1", &key, STAMP_ROOM]);
            for digest in [None, Some(0), Some(0), Some(1), Some(1), Some(2), None, Some(1)] {
                let digest = digest.map(|number: usize| &digests[number]);
                let by = |digest: &Bytes| bytes_of(&[b"EVALSHA", digest, b"1", &key, STAMP_ROOM]);
                let expected = digest.map(by);
                let expected = expected.as_ref().unwrap_or(&whole);
                assert_eq!(encoded.encoded_with(digest), expected);
            }
        }
    }

    #[test]
    fn a_plain_command_is_the_same_everywhere() {
        let words: [&[u8]; 2] = [b"GET", b"k"];
        let mut encoded = EncodedCommand::new(Command::Plain(&words));
        assert_eq!(encoded.encoded_with(None), bytes_of(&words));
        assert_eq!(encoded.encoded_with(None), bytes_of(&words));
    }
}
