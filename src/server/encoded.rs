//! A command as it goes out on connections: encoded once for all of them.

use leasehold_resp::{parts_len, store_parts};

use super::command::Command;

/// Room for the command of one lock with a name of some 40 bytes: up to here nothing is allocated.
const SHORT_BYTES: usize = 512;

/// One command to any number of servers.
pub(crate) struct EncodedCommand<'a> {
    command: Command<'a>,
    short: [u8; SHORT_BYTES],
    /// Used where the command is too long for that.
    long: Vec<u8>,
    /// How much of either is used; nothing until it is encoded.
    len: usize,
}

impl<'a> EncodedCommand<'a> {
    pub(crate) fn new(command: Command<'a>) -> Self {
        Self { command, short: [0; SHORT_BYTES], long: Vec::new(), len: 0 }
    }

    pub(super) fn command(&self) -> Command<'a> {
        self.command
    }

    /// The command as it is to be sent.
    pub(super) fn encoded(&mut self) -> &[u8] {
        if self.len == 0 {
            self.encode();
        }
        if self.len <= SHORT_BYTES { &self.short[..self.len] } else { &self.long }
    }

    fn encode(&mut self) {
        let spelled = self.command.spell();
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
    fn a_script_is_called_by_its_digest_or_sent_whole() {
        let called = Script::new("return 1", b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let whole = Script::whole("return 1");
        let digest = called.digest().unwrap();
        for length in [1, SHORT_BYTES, 2 * SHORT_BYTES] {
            let key = vec![b'k'; length];
            let parameters: [&[u8]; 2] = [b"1", &key];
            let forms: [(_, [&[u8]; 2]); 2] =
                [(&called, [b"EVALSHA", digest]), (&whole, [b"EVAL", b"return 1"])];
            for (script, [verb, which]) in forms {
                let mut encoded = EncodedCommand::new(Command::Script(script, &parameters));
                let expected = bytes_of(&[verb, which, b"1", &key, STAMP_ROOM]);
                assert_eq!(encoded.encoded(), expected);
                assert_eq!(encoded.encoded(), expected, "again");
            }
        }
    }

    #[test]
    fn a_plain_command_is_its_words() {
        let words: [&[u8]; 2] = [b"GET", b"k"];
        let mut encoded = EncodedCommand::new(Command::Plain(&words));
        assert_eq!(encoded.encoded(), bytes_of(&words));
    }
}
