//! The many ways to write one frame.

use bytes::BytesMut;
use leasehold_resp::{Frame, encode_frame};

/// Writes frames, choosing among their spellings by a list of choices; by zeros when that is
/// used up.
pub struct Spelling<'a> {
    choices: std::slice::Iter<'a, u8>,
    out: Vec<u8>,
}

impl<'a> Spelling<'a> {
    pub fn new(choices: &'a [u8]) -> Self {
        Self { choices: choices.iter(), out: Vec::new() }
    }

    pub fn spell(mut self, frame: &Frame) -> Vec<u8> {
        self.frame(frame);
        self.out
    }

    fn choice(&mut self) -> u8 {
        self.choices.next().copied().unwrap_or_default()
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn frame(&mut self, frame: &Frame) {
        match frame {
            Frame::Null => match self.choice() % 3 {
                0 => self.put("_\r\n"),
                1 => self.put("$-1\r\n"),
                _ => self.put("*-1\r\n"),
            },
            Frame::Integer(number) => self.integer(*number),
            Frame::Bulk(text) if self.choice() % 2 == 1 => self.chunks(text),
            Frame::Array(items) => self.values('*', items.len(), items.iter(), true),
            Frame::Set(items) => self.values('~', items.len(), items.iter(), true),
            Frame::Push(items) => self.values('>', items.len(), items.iter(), false),
            Frame::Map(pairs) => self.pairs('%', pairs, true),
            Frame::Attributed { attributes, value } => {
                self.pairs('|', attributes, false);
                self.frame(value);
            }
            _ => {
                let mut usual = BytesMut::new();
                encode_frame(&mut usual, frame);
                self.out.extend_from_slice(&usual);
            }
        }
    }

    fn integer(&mut self, number: i64) {
        let sign = if number < 0 { "-" } else { "" };
        let width = 1 + usize::from(self.choice() % 19);
        self.put(&format!(":{sign}{:0width$}\r\n", number.unsigned_abs()));
    }

    fn chunks(&mut self, text: &[u8]) {
        self.put("$?\r\n");
        let mut rest = text;
        while !rest.is_empty() {
            let size = (1 + usize::from(self.choice() % 8)).min(rest.len());
            let (chunk, later) = rest.split_at(size);
            self.put(&format!(";{size}\r\n"));
            self.out.extend_from_slice(chunk);
            self.put("\r\n");
            rest = later;
        }
        self.put(";0\r\n");
    }

    fn pairs(&mut self, kind: char, pairs: &[(Frame, Frame)], may_stream: bool) {
        let values = pairs.iter().flat_map(|(key, value)| [key, value]);
        self.values(kind, pairs.len(), values, may_stream);
    }

    fn values<'f>(
        &mut self,
        kind: char,
        count: usize,
        values: impl Iterator<Item = &'f Frame>,
        may_stream: bool,
    ) {
        let streamed = may_stream && self.choice() % 2 == 1;
        let count = if streamed { "?".to_owned() } else { count.to_string() };
        self.put(&format!("{kind}{count}\r\n"));
        values.for_each(|value| self.frame(value));
        if streamed {
            self.put(".\r\n");
        }
    }
}
