//! What a command's reply can be, and what proves that it is this command's and no other's.
//!
//! A reply does not name its command: it belongs to the command at its place in the queue, as long
//! as no reply was lost on the way and none was added. So every script is given a *stamp*, a number
//! that no other command on the connection has, and gives it back in its reply, as the text that came:
//! it would cost the server a tenth of a release to read that as a number and to spell it again. A reply
//! that has no room for one, as an error, counts only once a stamped reply behind it has come in its own place.
//! Where no script goes behind it in the same write, a [`Seal`] does, an `ECHO` of a stamp; and a seal
//! is sent once a script has been refused.

use leasehold_resp::Frame;

use super::outcome::Fault;
use super::refusal::ServerError;
use crate::sha1::Digest;

pub(super) type Digits = [u8; STAMP_DIGITS];
/// A stamp's digits. All have as many, so that one can be written over another.
pub const STAMP_DIGITS: usize = 16;
/// As the last word of a command: the room for its stamp.
pub const STAMP_ROOM: &Digits = b"0000000000000000";
/// The first stamps of connections lie from here on.
const FIRST_STAMP_MIN: i64 = 1_000_000_000_000_000;
/// A connection's first stamp is below this; how many more there are, no connection can need.
const FIRST_STAMP_MAX: i64 = 8_000_000_000_000_000;

/// What the reply to a command can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// That of a script: its stamp, by itself or as the first item of an array. The command's last
    /// word is room for the stamp.
    Stamp,
    /// `OK` or nothing, as `SET .. NX` says it; counts once a stamp behind it has come.
    Flag,
    /// A number that is not negative, as `WAIT` says it; counts once a stamp behind it has come.
    Count,
    /// A text or nothing, as `GET` says it; counts once a stamp behind it has come. Its caller is told its
    /// [`head`].
    Text,
    /// This digest, as `SCRIPT LOAD` says it; counts once a stamp behind it has come.
    Digest(&'static Digest),
    /// Of this shape, and one of several in one write that are one command for their caller, and not the
    /// last; counts once a stamp behind it has come.
    Part(Shape),
    /// Anything; counts once a stamp behind it has come.
    Sealed,
    /// Anything, as it comes: a question whose answer gives nobody a lock.
    Anything,
}

/// What the reply to a part looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `OK` or nothing.
    Flag,
    /// A number.
    Number,
}

impl Expected {
    /// Whether it counts only once a stamp behind it has come.
    pub(super) fn is_pending(self) -> bool {
        !matches!(self, Self::Stamp | Self::Anything)
    }

    /// See [`Expected::Part`].
    pub(super) fn is_part(self) -> bool {
        matches!(self, Self::Part(_))
    }
}

/// A number, and how it is spelt: so neither is made from the other where many replies come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    number: i64,
    pub(super) digits: Digits,
}

/// What the reply to a command has to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// One that carries this stamp.
    Stamped(Stamp),
    /// One without a stamp.
    Unstamped(Expected),
}

/// What a reply in its place says of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// They are all in their places, and so is it.
    Proves,
    /// Nothing; and it counts only once it is proved.
    Pends(Pending),
    /// Nothing; and it counts as it is.
    Passes,
}

/// What has come and waits for its proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pending {
    #[default]
    Nothing,
    Errors,
    /// Among them replies that may grant something.
    Grants,
}

impl Place {
    /// See [`Expected::Part`].
    pub(super) fn is_part(&self) -> bool {
        matches!(self, Self::Unstamped(expected) if expected.is_part())
    }

    /// Whether `frame` can be the reply here, and what it says then.
    ///
    /// # Errors
    ///
    /// When it cannot.
    #[inline]
    pub(super) fn judge(&self, frame: &Frame) -> Result<Standing, Fault> {
        let value = frame.value();
        match (self, value) {
            (Self::Stamped(stamp), Frame::Bulk(text)) if stamp.is_spelt(text) => {
                Ok(Standing::Proves)
            }
            (Self::Stamped(stamp), Frame::Array(items)) if matches!(items.first(), Some(Frame::Bulk(text)) if stamp.is_spelt(text)) => {
                Ok(Standing::Proves)
            }
            (Self::Unstamped(Expected::Anything), _) => Ok(Standing::Passes),
            (_, Frame::Error(_) | Frame::BlobError(_)) => Ok(Standing::Pends(Pending::Errors)),
            (Self::Unstamped(expected), value) if expected.allows(value) => {
                Ok(Standing::Pends(Pending::Grants))
            }
            _ => Err(Fault::Misplaced),
        }
    }

    /// A reply that can be the one here, as its caller is told it: a stamp alone as a number, and a text as that of
    /// its head. Numbers hold on to no buffer that others are read into.
    #[inline]
    pub(super) fn told(&self, frame: Frame) -> Frame {
        match (self, frame.into_value()) {
            (Self::Stamped(stamp), Frame::Bulk(_)) => Frame::Integer(stamp.number),
            (Self::Unstamped(Expected::Text), Frame::Bulk(text)) => head(&text),
            (_, value) => value,
        }
    }
}

/// The first 16 hexadecimal digits of a text, as a number of their 64 bits; nothing where it does not begin so.
pub fn head(text: &[u8]) -> Frame {
    let digits = text.first_chunk::<16>().filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.map_or(Frame::Null, |number| Frame::Integer(i64::from_ne_bytes(number.to_ne_bytes())))
}

/// An `ECHO` whose reply proves those before it.
pub(super) struct Seal {
    /// How many commands of the connection went before it.
    pub(super) behind: u64,
    /// The offset of its first byte in all that was ever appended.
    pub(super) starts_at: u64,
    pub(super) digits: Digits,
}

impl Seal {
    /// What `frame` in its place says of those before it, which are `pending`.
    ///
    /// An error proves nothing. Where all that waits for a proof are errors, it is taken for one: a
    /// server that loads its data refuses the seal as well, and errors grant nothing.
    ///
    /// # Errors
    ///
    /// When it is not the reply to the seal; or it is an error, and there is more than errors.
    pub(super) fn judge(&self, frame: &Frame, pending: Pending) -> Result<Standing, Fault> {
        match frame.value() {
            Frame::Bulk(text) if text[..] == self.digits => Ok(Standing::Proves),
            Frame::Error(text) | Frame::BlobError(text) if pending == Pending::Grants => {
                Err(Fault::Unsealed(ServerError::new(text).lacking("+echo".into())))
            }
            Frame::Error(_) | Frame::BlobError(_) => Ok(Standing::Proves),
            _ => Err(Fault::Misplaced),
        }
    }
}

impl Expected {
    fn allows(&self, value: &Frame) -> bool {
        match self {
            Self::Flag | Self::Part(Shape::Flag) => {
                matches!(value, Frame::Simple(_) | Frame::Null)
            }
            Self::Text => matches!(value, Frame::Bulk(_) | Frame::Null),
            Self::Part(Shape::Number) => matches!(value, Frame::Integer(_)),
            Self::Count => matches!(value, Frame::Integer(number) if *number >= 0),
            Self::Digest(digest) => matches!(value, Frame::Bulk(text) if text[..] == digest[..]),
            Self::Sealed => true,
            Self::Stamp | Self::Anything => false,
        }
    }
}

impl Stamp {
    #[inline]
    fn is_spelt(&self, text: &[u8]) -> bool {
        text == self.digits
    }
}

/// The stamps of one connection, each used once.
pub(super) struct Stamps {
    last: Stamp,
}

impl Stamps {
    /// Those that begin at `random`, so that two connections hardly have one in common: what
    /// stands between us and the server may mix up connections too.
    pub(super) fn new(random: u64) -> Self {
        let spread = random % FIRST_STAMP_MAX.abs_diff(FIRST_STAMP_MIN);
        let number = FIRST_STAMP_MIN.saturating_add_unsigned(spread);
        let mut digits = *STAMP_ROOM;
        digits.copy_from_slice(&leasehold_resp::Decimal::new(number.unsigned_abs()));
        Self { last: Stamp { number, digits } }
    }

    #[inline(never)]
    pub(super) fn next(&mut self) -> Stamp {
        self.last.number += 1;
        for digit in self.last.digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                break;
            }
            *digit = b'0';
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn stamps_differ_have_all_their_digits_and_are_spelt_as_they_count() {
        for random in [0, 999, 8_999, u64::MAX, FIRST_STAMP_MAX.abs_diff(FIRST_STAMP_MIN) - 1] {
            let mut stamps = Stamps::new(random);
            let mut last = 0;
            for _ in 0..2000 {
                let Stamp { number, digits } = stamps.next();
                assert!(number > last);
                assert_eq!(digits[..], number.to_string().as_bytes()[..]);
                last = number;
            }
        }
    }

    fn bulk(text: &str) -> Frame {
        Frame::Bulk(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn judge(place: Place, frame: &Frame) -> Option<Standing> {
        place.judge(frame).ok()
    }

    #[test]
    fn a_stamped_place_takes_its_stamp_and_errors_and_nothing_else() {
        let stamp = "1000000000000007";
        let place =
            Place::Stamped(Stamp { number: 7, digits: stamp.as_bytes().try_into().unwrap() });
        let with = |first| Frame::Array([first, bulk(stamp)].into());
        assert_eq!(judge(place, &bulk(stamp)), Some(Standing::Proves));
        assert_eq!(judge(place, &with(bulk(stamp))), Some(Standing::Proves));
        let attributed =
            Frame::Attributed { attributes: [].into(), value: Box::new(with(bulk(stamp))) };
        assert_eq!(judge(place, &attributed), Some(Standing::Proves));
        let error = Standing::Pends(Pending::Errors);
        assert_eq!(judge(place, &Frame::Error("ERR".into())), Some(error));
        for strange in [
            bulk("1000000000000008"),
            bulk("-1000000000000007"),
            bulk(""),
            with(bulk("1000000000000006")),
            with(Frame::Null),
            Frame::Array([].into()),
            Frame::Integer(1_000_000_000_000_007),
            Frame::Null,
            Frame::Simple("OK".into()),
        ] {
            assert_eq!(judge(place, &strange), None, "{strange:?}");
        }
    }

    #[test]
    fn a_seal_is_its_stamp_as_text_and_an_error_in_its_place_proves_no_grant() {
        let seal = Seal { behind: 0, starts_at: 0, digits: *b"1000000000000000" };
        let judge = |frame: &Frame, pending| seal.judge(frame, pending).ok();
        let error = Frame::Error("NOPERM this user has no permissions to run 'echo'".into());
        for pending in [Pending::Nothing, Pending::Errors] {
            assert_eq!(judge(&bulk("1000000000000000"), pending), Some(Standing::Proves));
            assert_eq!(judge(&error, pending), Some(Standing::Proves));
            for strange in [bulk("1000000000000001"), bulk("x"), Frame::Null, Frame::Integer(1)] {
                assert_eq!(judge(&strange, pending), None, "{strange:?}");
            }
        }
        let Err(Fault::Unsealed(error)) = seal.judge(&error, Pending::Grants) else { panic!() };
        assert!(error.to_string().ends_with("; grant the user +echo"), "{error}");
    }

    #[test]
    fn what_has_no_room_for_a_stamp_is_known_by_its_type_and_waits() {
        let flag = Place::Unstamped(Expected::Flag);
        let count = Place::Unstamped(Expected::Count);
        let taken = Place::Unstamped(Expected::Part(Shape::Flag));
        let number = Place::Unstamped(Expected::Part(Shape::Number));
        let text = Place::Unstamped(Expected::Text);
        let digest = Expected::Digest(b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let digest = Place::Unstamped(digest);
        for (place, frame, expected) in [
            (flag, Frame::Simple("OK".into()), Some(Standing::Pends(Pending::Grants))),
            (flag, Frame::Null, Some(Standing::Pends(Pending::Grants))),
            (flag, Frame::Integer(1), None),
            (flag, bulk("x"), None),
            (count, Frame::Integer(0), Some(Standing::Pends(Pending::Grants))),
            (count, Frame::Integer(-1), None),
            (count, bulk("1000000000000000"), None),
            (count, Frame::Null, None),
            (
                digest,
                bulk("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"),
                Some(Standing::Pends(Pending::Grants)),
            ),
            (digest, bulk("7f923f79fe76194c868d7e1d0820de36700eb649"), None),
            (digest, Frame::Simple("OK".into()), None),
            (digest, Frame::Error("ERR".into()), Some(Standing::Pends(Pending::Errors))),
            (Place::Unstamped(Expected::Sealed), bulk("x"), Some(Standing::Pends(Pending::Grants))),
            (Place::Unstamped(Expected::Anything), bulk("x"), Some(Standing::Passes)),
            (flag, Frame::Error("ERR".into()), Some(Standing::Pends(Pending::Errors))),
            (taken, Frame::Simple("OK".into()), Some(Standing::Pends(Pending::Grants))),
            (taken, Frame::Null, Some(Standing::Pends(Pending::Grants))),
            (taken, Frame::Integer(1), None),
            (
                number,
                Frame::Integer(-1_234_567_890_123_456),
                Some(Standing::Pends(Pending::Grants)),
            ),
            (number, Frame::Simple("OK".into()), None),
            (number, Frame::Null, None),
            (number, bulk("0"), None),
            (number, Frame::Error("ERR".into()), Some(Standing::Pends(Pending::Errors))),
            (text, bulk("x"), Some(Standing::Pends(Pending::Grants))),
            (text, Frame::Null, Some(Standing::Pends(Pending::Grants))),
            (text, Frame::Error("ERR".into()), Some(Standing::Pends(Pending::Errors))),
            (text, Frame::Simple("OK".into()), None),
            (text, Frame::Integer(1), None),
            (
                Place::Unstamped(Expected::Anything),
                Frame::Error("ERR".into()),
                Some(Standing::Passes),
            ),
        ] {
            assert_eq!(judge(place, &frame), expected, "{place:?} {frame:?}");
        }
    }
}
