//! Commands and frames to bytes.

use bytes::{BufMut, BytesMut};

use crate::scalar::{is_big_number, is_double, is_one_line};
use crate::{Decimal, Frame};

const CRLF: &[u8] = b"\r\n";
/// The room that [`encode_parts`] tries first, in bytes.
const COMMAND_ROOM: usize = 320;

/// How many bytes [`encode_command`] writes for `args`.
#[must_use]
pub fn command_len(args: &[&[u8]]) -> usize {
    header_len(args.len()) + bulks_len(args)
}

/// How many bytes [`store_parts`] stores for `parts`.
#[must_use]
pub fn parts_len(parts: &[&[&[u8]]]) -> usize {
    header_len(count(parts)) + parts.iter().map(|args| bulks_len(args)).sum::<usize>()
}

fn bulks_len(args: &[&[u8]]) -> usize {
    args.iter().fold(0, |sum, arg| sum + header_len(arg.len()) + arg.len() + CRLF.len())
}

fn count(parts: &[&[&[u8]]]) -> usize {
    parts.iter().map(|args| args.len()).sum()
}

fn header_len(length: usize) -> usize {
    1 + Decimal::len_of(length) + CRLF.len()
}

/// Appends a command: an array of bulk strings.
///
/// Reserves once, for exactly [`command_len`] bytes; allocates nothing when `out` has that much
/// room.
pub fn encode_command(out: &mut BytesMut, args: &[&[u8]]) {
    let start = out.len();
    // Made long enough once: pieces are then stored without a check of the room for each.
    out.resize(start + command_len(args), 0);
    let stored = store_command(&mut out[start..], args);
    debug_assert_eq!(stored, Some(out.len() - start));
}

/// As [`encode_command`], for a command with some arguments encoded already: those in `head`, and those at its end,
/// which the caller appends. `others` is the number of both. For a buffer that is used again and again, because it may
/// reserve more room than needed.
pub fn encode_parts(out: &mut BytesMut, head: &[u8], parts: &[&[&[u8]]], others: usize) {
    let start = out.len();
    // Most commands are shorter, and counting one's length takes half as long as storing it.
    out.resize(start + COMMAND_ROOM, 0);
    let stored = store_some(&mut out[start..], head, parts, others).or_else(|| {
        out.resize(start + header_len(others) + head.len() + parts_len(parts), 0);
        store_some(&mut out[start..], head, parts, others)
    });
    out.truncate(start + stored.unwrap_or(0));
}

/// Appends one bulk string: an argument of a command whose beginning counts it among `others`, see [`encode_parts`].
pub fn encode_bulk(out: &mut BytesMut, text: &[u8]) {
    put_string(out, b'$', text);
}

/// Stores at the start of `room` what [`encode_command`] appends, and returns its length in bytes; `None` if
/// `room` is shorter than [`command_len`], and then `room` may have the command's beginning.
pub fn store_command(room: &mut [u8], args: &[&[u8]]) -> Option<usize> {
    let whole = room.len();
    let rest = store_header(room, b'*', args.len())?;
    Some(whole - store_bulks(rest, args)?.len())
}

/// As [`store_command`], for a command whose arguments are in several slices.
pub fn store_parts(room: &mut [u8], parts: &[&[&[u8]]]) -> Option<usize> {
    store_some(room, b"", parts, 0)
}

fn store_some(room: &mut [u8], head: &[u8], parts: &[&[&[u8]]], others: usize) -> Option<usize> {
    let whole = room.len();
    let rest = store_header(room, b'*', count(parts) + others)?;
    let mut rest = store(rest, head)?;
    for args in parts {
        rest = store_bulks(rest, args)?;
    }
    Some(whole - rest.len())
}

#[inline]
fn store_bulks<'a>(mut rest: &'a mut [u8], args: &[&[u8]]) -> Option<&'a mut [u8]> {
    for arg in args {
        rest = store_bulk(rest, arg)?;
    }
    Some(rest)
}

/// Stores one bulk string at the start of `room`, and returns the room after it.
#[inline]
fn store_bulk<'a>(room: &'a mut [u8], text: &[u8]) -> Option<&'a mut [u8]> {
    match u8::try_from(text.len()) {
        Ok(ones @ 0..10) => store_behind([b'$', b'0' + ones, b'\r', b'\n'], text, room),
        Ok(n @ 10..100) => {
            store_behind([b'$', b'0' + n / 10, b'0' + n % 10, b'\r', b'\n'], text, room)
        }
        _ => {
            let room = store_header(room, b'$', text.len())?;
            let room = store(room, text)?;
            store(room, CRLF)
        }
    }
}

/// Stores a short header, the text after it, and a line's end, with one check of the room for all.
#[inline]
fn store_behind<'a, const N: usize>(
    header: [u8; N],
    text: &[u8],
    room: &'a mut [u8],
) -> Option<&'a mut [u8]> {
    let (taken, rest) = room.split_at_mut_checked(N + text.len() + CRLF.len())?;
    let (head, taken) = taken.split_at_mut(N);
    head.copy_from_slice(&header);
    let (body, end) = taken.split_at_mut(text.len());
    body.copy_from_slice(text);
    end.copy_from_slice(CRLF);
    Some(rest)
}

/// Stores `bytes` at the start of `room`, and returns the room after them.
#[inline]
fn store<'a>(room: &'a mut [u8], bytes: &[u8]) -> Option<&'a mut [u8]> {
    let (head, rest) = room.split_at_mut_checked(bytes.len())?;
    head.copy_from_slice(bytes);
    Some(rest)
}

#[inline]
fn store_header(room: &mut [u8], kind: u8, length: usize) -> Option<&mut [u8]> {
    match u8::try_from(length) {
        Ok(ones @ 0..10) => store(room, &[kind, b'0' + ones, b'\r', b'\n']),
        Ok(n @ 10..100) => store(room, &[kind, b'0' + n / 10, b'0' + n % 10, b'\r', b'\n']),
        _ => {
            let room = store(room, &[kind])?;
            let room = store(room, &Decimal::new(length as u64))?;
            store(room, CRLF)
        }
    }
}

/// Appends a frame in its RESP3 spelling: for tests, proxies and scripted servers.
///
/// A text that a line cannot hold is written in another form: a [`Frame::Simple`] with a CR or LF in it
/// as a bulk string, such a [`Frame::Error`] as a blob error, and a [`Frame::BigNumber`] or a
/// [`Frame::Double`] that is no number as a bulk string. So the output is always well-formed; but a push
/// inside another frame is written where it is, and a decoder will refuse it there.
///
/// Recursive: for frames nested no deeper than [`Limits::DEPTH_MAX`](crate::Limits::DEPTH_MAX).
pub fn encode_frame(out: &mut BytesMut, frame: &Frame) {
    match frame {
        Frame::Simple(text) if is_one_line(text) => put_line(out, b'+', text),
        Frame::Error(text) if is_one_line(text) => put_line(out, b'-', text),
        Frame::BigNumber(text) if is_big_number(text) => put_line(out, b'(', text),
        Frame::Double(text) if is_double(text) => put_line(out, b',', text),
        Frame::Simple(text) | Frame::BigNumber(text) | Frame::Double(text) | Frame::Bulk(text) => {
            put_string(out, b'$', text);
        }
        Frame::Error(text) | Frame::BlobError(text) => put_string(out, b'!', text),
        Frame::Integer(number) => put_integer(out, *number),
        Frame::Null => put_line(out, b'_', b""),
        Frame::Boolean(true) => put_line(out, b'#', b"t"),
        Frame::Boolean(false) => put_line(out, b'#', b"f"),
        Frame::Verbatim { format, text } => put_verbatim(out, *format, text),
        Frame::Array(items) => put_list(out, b'*', items),
        Frame::Set(items) => put_list(out, b'~', items),
        Frame::Push(items) => put_list(out, b'>', items),
        Frame::Map(pairs) => put_pairs(out, b'%', pairs),
        Frame::Attributed { attributes, value } => {
            put_pairs(out, b'|', attributes);
            encode_frame(out, value);
        }
    }
}

fn put_line(out: &mut BytesMut, kind: u8, text: &[u8]) {
    out.put_u8(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(CRLF);
}

fn put_header(out: &mut BytesMut, kind: u8, length: usize) {
    // A piece whose size is known when compiling takes a store or two, not a call to copy; and nearly
    // every argument is this short.
    match u8::try_from(length) {
        Ok(ones @ 0..10) => out.extend_from_slice(&[kind, b'0' + ones, b'\r', b'\n']),
        Ok(n @ 10..100) => {
            out.extend_from_slice(&[kind, b'0' + n / 10, b'0' + n % 10, b'\r', b'\n']);
        }
        _ => put_line(out, kind, &Decimal::new(length as u64)),
    }
}

fn put_string(out: &mut BytesMut, kind: u8, text: &[u8]) {
    put_header(out, kind, text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(CRLF);
}

fn put_integer(out: &mut BytesMut, number: i64) {
    out.put_u8(b':');
    if number < 0 {
        out.put_u8(b'-');
    }
    out.extend_from_slice(&Decimal::new(number.unsigned_abs()));
    out.extend_from_slice(CRLF);
}

fn put_verbatim(out: &mut BytesMut, format: [u8; 3], text: &[u8]) {
    put_header(out, b'=', format.len() + 1 + text.len());
    out.extend_from_slice(&format);
    out.put_u8(b':');
    out.extend_from_slice(text);
    out.extend_from_slice(CRLF);
}

fn put_list(out: &mut BytesMut, kind: u8, items: &[Frame]) {
    put_header(out, kind, items.len());
    for item in items {
        encode_frame(out, item);
    }
}

fn put_pairs(out: &mut BytesMut, kind: u8, pairs: &[(Frame, Frame)]) {
    put_header(out, kind, pairs.len());
    for (key, value) in pairs {
        encode_frame(out, key);
        encode_frame(out, value);
    }
}
