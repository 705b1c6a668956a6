//! The protocol once more, as plainly as it can be said: one recursive function over bytes that
//! are all there. Slow and copying; it shares nothing with the decoder that it judges.

use bytes::Bytes;
use leasehold_resp::{DecodeError, Frame, Limits};

/// Why nothing can be decoded.
#[derive(Debug, PartialEq)]
enum Stop {
    Incomplete,
    Fault(DecodeError),
}

type Read<T> = Result<T, Stop>;

/// The first frame in `bytes` and how many bytes it takes, or nothing if more must come.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Option<(Frame, usize)>, DecodeError> {
    let depth = limits.depth.min(Limits::DEPTH_MAX);
    let mut plain = Plain { bytes, at: 0, elements: 0, limits: Limits { depth, ..limits } };
    match plain.value(Place { depth: 0, uncounted: false }) {
        Ok(frame) => Ok(Some((frame, plain.at))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Fault(error)) => Err(error),
    }
}

struct Plain<'a> {
    bytes: &'a [u8],
    at: usize,
    elements: usize,
    limits: Limits,
}

/// Where a value stands.
#[derive(Clone, Copy)]
struct Place {
    /// Inside how many aggregates and attributes.
    depth: usize,
    /// Whether no count has announced it.
    uncounted: bool,
}

fn fault<T>(error: DecodeError) -> Read<T> {
    Err(Stop::Fault(error))
}

impl Plain<'_> {
    fn peek(&self) -> Read<u8> {
        self.bytes.get(self.at).copied().ok_or(Stop::Incomplete)
    }

    fn value(&mut self, place: Place) -> Read<Frame> {
        let kind = self.peek()?;
        match kind {
            b';' => return fault(DecodeError::UnexpectedChunk),
            b'.' => return fault(DecodeError::UnexpectedEnd),
            b'>' if place.depth > 0 => return fault(DecodeError::NestedPush),
            _ => {}
        }
        let line = self.line()?;
        if place.uncounted {
            self.count(1)?;
        }
        match kind {
            b'+' => Ok(Frame::Simple(line.into())),
            b'-' => Ok(Frame::Error(line.into())),
            b':' => integer(&line).map(Frame::Integer),
            b',' => double(line),
            b'(' => big_number(line),
            b'#' => match &line[..] {
                b"t" => Ok(Frame::Boolean(true)),
                b"f" => Ok(Frame::Boolean(false)),
                _ => fault(DecodeError::InvalidBoolean),
            },
            b'_' => Ok(Frame::Null),
            b'$' if line == b"?" => self.streamed_string(),
            b'$' | b'*' if line == b"-1" => Ok(Frame::Null),
            b'$' => Ok(Frame::Bulk(self.string(length(&line)?, 0)?)),
            b'!' => Ok(Frame::BlobError(self.string(length(&line)?, 0)?)),
            b'=' => self.verbatim(length(&line)?),
            _ => self.aggregate(kind, &line, place.depth),
        }
    }

    fn aggregate(&mut self, kind: u8, line: &[u8], depth: usize) -> Read<Frame> {
        let streamed = line == b"?" && matches!(kind, b'*' | b'~' | b'%');
        let count = if streamed { 0 } else { length(line)? };
        if depth >= self.limits.depth {
            return fault(DecodeError::TooDeep { limit: self.limits.depth });
        }
        let per_member = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
        self.count(count.saturating_mul(per_member))?;

        let mut values = Vec::new();
        let inside = Place { depth: depth + 1, uncounted: streamed };
        if streamed {
            while self.peek()? != b'.' {
                values.push(self.value(inside)?);
            }
            if values.len() % per_member != 0 {
                return fault(DecodeError::KeyWithoutValue);
            }
            self.line()?;
        } else {
            for _ in 0..count * per_member {
                values.push(self.value(inside)?);
            }
        }
        Ok(match kind {
            b'*' => Frame::Array(values.into()),
            b'~' => Frame::Set(values.into()),
            b'>' => Frame::Push(values.into()),
            b'%' => Frame::Map(in_pairs(values).into()),
            _ => Frame::Attributed {
                attributes: in_pairs(values).into(),
                value: Box::new(self.attributed(inside)?),
            },
        })
    }

    fn attributed(&mut self, place: Place) -> Read<Frame> {
        if self.peek()? == b'.' {
            return fault(DecodeError::AttributeWithoutValue);
        }
        self.value(Place { uncounted: false, ..place })
    }

    fn streamed_string(&mut self) -> Read<Frame> {
        let mut text = Vec::new();
        loop {
            if self.peek()? != b';' {
                return fault(DecodeError::ExpectedChunk);
            }
            let line = self.line()?;
            let length = length(&line)?;
            if length == 0 {
                return Ok(Frame::Bulk(text.into()));
            }
            let chunk = self.string(length, text.len())?;
            text.extend_from_slice(&chunk);
        }
    }

    fn verbatim(&mut self, length: usize) -> Read<Frame> {
        if length < 4 {
            return fault(DecodeError::InvalidVerbatim);
        }
        let whole = self.string(length, 0)?;
        if whole[3] != b':' {
            return fault(DecodeError::InvalidVerbatim);
        }
        Ok(Frame::Verbatim { format: [whole[0], whole[1], whole[2]], text: whole.slice(4..) })
    }

    /// A string's bytes and their CRLF, when `before` bytes of it have been read already.
    fn string(&mut self, length: usize, before: usize) -> Read<Bytes> {
        if length > self.limits.bulk_bytes || before + length > self.limits.bulk_bytes {
            return fault(DecodeError::BulkTooLong { limit: self.limits.bulk_bytes });
        }
        let end = self.at.saturating_add(length).saturating_add(2);
        self.check_frame_bytes(end)?;
        let bytes = self.bytes.get(self.at..end).ok_or(Stop::Incomplete)?;
        if &bytes[length..] != b"\r\n" {
            return fault(DecodeError::UnterminatedString);
        }
        self.at = end;
        Ok(Bytes::copy_from_slice(&bytes[..length]))
    }

    /// What stands between a type and its CRLF.
    fn line(&mut self) -> Read<Vec<u8>> {
        let (bound, too_long) = self.bound(self.peek()?)?;
        let start = self.at + 1;
        let mut end = start;
        loop {
            match self.bytes.get(end) {
                None => return Err(Stop::Incomplete),
                Some(b'\r') => break,
                Some(b'\n') => return fault(DecodeError::BareNewline),
                Some(_) if end - start == bound => return fault(too_long),
                Some(_) => end += 1,
            }
        }
        match self.bytes.get(end + 1) {
            None => return Err(Stop::Incomplete),
            Some(b'\n') => {}
            Some(_) => return fault(DecodeError::BareNewline),
        }
        self.check_frame_bytes(end + 2)?;
        self.at = end + 2;
        Ok(self.bytes[start..end].to_vec())
    }

    fn bound(&self, kind: u8) -> Read<(usize, DecodeError)> {
        let limit = self.limits.line_bytes;
        match kind {
            b'+' | b'-' | b',' | b'(' => Ok((limit, DecodeError::LineTooLong { limit })),
            b':' => Ok((20, DecodeError::InvalidInteger)),
            b'#' => Ok((1, DecodeError::InvalidBoolean)),
            b'_' => Ok((0, DecodeError::InvalidNull)),
            b'.' => Ok((0, DecodeError::InvalidEnd)),
            b'$' | b'!' | b'=' | b';' | b'*' | b'~' | b'%' | b'>' | b'|' => {
                Ok((20, DecodeError::InvalidLength))
            }
            _ => fault(DecodeError::UnknownType(kind)),
        }
    }

    fn check_frame_bytes(&self, end: usize) -> Read<()> {
        let limit = self.limits.frame_bytes;
        if end > limit { fault(DecodeError::FrameTooLong { limit }) } else { Ok(()) }
    }

    fn count(&mut self, elements: usize) -> Read<()> {
        let limit = self.limits.elements;
        self.elements = self.elements.saturating_add(elements);
        if self.elements > limit { fault(DecodeError::TooManyElements { limit }) } else { Ok(()) }
    }
}

fn in_pairs(values: Vec<Frame>) -> Vec<(Frame, Frame)> {
    let mut values = values.into_iter();
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

fn text(line: &[u8]) -> &str {
    std::str::from_utf8(line).unwrap_or_default()
}

fn length(line: &[u8]) -> Read<usize> {
    match text(line).parse() {
        Ok(length) if is_digits(text(line)) => Ok(length),
        _ => fault(DecodeError::InvalidLength),
    }
}

fn integer(line: &[u8]) -> Read<i64> {
    let digits = text(line).strip_prefix('-').unwrap_or(text(line));
    match text(line).parse() {
        Ok(number) if is_digits(digits) => Ok(number),
        _ => fault(DecodeError::InvalidInteger),
    }
}

fn big_number(line: Vec<u8>) -> Read<Frame> {
    if is_digits(unsigned(text(&line))) {
        Ok(Frame::BigNumber(line.into()))
    } else {
        fault(DecodeError::InvalidBigNumber)
    }
}

fn double(line: Vec<u8>) -> Read<Frame> {
    let text = text(&line);
    if ["inf", "-inf", "nan", "-nan"].contains(&text) {
        return Ok(Frame::Double(line.into()));
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (integral, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    if is_digits(unsigned(integral)) && is_digits(fraction) && is_digits(unsigned(exponent)) {
        Ok(Frame::Double(line.into()))
    } else {
        fault(DecodeError::InvalidDouble)
    }
}
