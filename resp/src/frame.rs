//! One protocol value.

use std::sync::Arc;

use bytes::Bytes;

use crate::scalar;

/// One value of the protocol, received or to be sent. The variants are all types of RESP3: a match may name
/// all.
///
/// Text is bytes: the protocol promises no encoding. Bytes of a decoded frame are slices of the
/// buffer that they were received into and keep that buffer alive; copy what is kept for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// `+`: a string of one line.
    Simple(Bytes),
    /// `-`: an error of one line; its first word is the error's code.
    Error(Bytes),
    /// `:`: a signed 64-bit integer.
    Integer(i64),
    /// `$`: a string of any bytes, also if it came in chunks.
    Bulk(Bytes),
    /// `*`: frames in order, also if they came without a count.
    Array(Arc<[Frame]>),
    /// `_`, `$-1` or `*-1`: the three spellings mean the same.
    Null,
    /// `#`: true or false.
    Boolean(bool),
    /// `,`: a floating-point number, as it was spelt; [`Frame::as_double`] reads it.
    Double(Bytes),
    /// `(`: an integer of any size, in decimal digits with an optional sign.
    BigNumber(Bytes),
    /// `!`: an error of any bytes; its first word is the error's code.
    BlobError(Bytes),
    /// `=`: a string with its format.
    Verbatim {
        /// `txt` for plain text, `mkd` for Markdown.
        format: [u8; 3],
        /// The string, without its format.
        text: Bytes,
    },
    /// `%`: pairs in the order received, repeated keys included.
    Map(Arc<[(Frame, Frame)]>),
    /// `~`: members in the order received, repeated ones included.
    Set(Arc<[Frame]>),
    /// `>`: a message that answers no command.
    Push(Arc<[Frame]>),
    /// `|`: a value and the server's attributes of it.
    Attributed {
        /// The attributes, in the order received.
        attributes: Arc<[(Frame, Frame)]>,
        /// The value that the attributes are about.
        value: Box<Frame>,
    },
}

impl Frame {
    /// Whether this is a push message, by its type alone, whatever an array contains.
    #[must_use]
    #[inline]
    pub fn is_push(&self) -> bool {
        matches!(self, Self::Push(_))
    }

    /// The text of an error, in one line or of any bytes, with or without attributes.
    #[must_use]
    #[inline]
    pub fn error(&self) -> Option<&Bytes> {
        match self.value() {
            Self::Error(text) | Self::BlobError(text) => Some(text),
            _ => None,
        }
    }

    /// The number of an integer, with or without attributes.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self.value() {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The number of a double, with or without attributes.
    #[must_use]
    pub fn as_double(&self) -> Option<f64> {
        match self.value() {
            Self::Double(text) => scalar::double(text),
            _ => None,
        }
    }

    /// The bytes of a string, however it was spelt, with or without attributes.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self.value() {
            Self::Simple(text) | Self::Bulk(text) | Self::Verbatim { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The value of a field of a map, or of an array of alternating names and values, as in RESP2. The
    /// first, if several have that name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Frame> {
        let is_name =
            |frame: &Frame| frame.as_bytes().is_some_and(|text| &text[..] == name.as_bytes());
        match self.value() {
            Self::Map(pairs) => pairs.iter().find(|(key, _)| is_name(key)).map(|(_, value)| value),
            Self::Array(items) => {
                items.chunks_exact(2).find(|pair| is_name(&pair[0])).map(|pair| &pair[1])
            }
            _ => None,
        }
    }

    /// The value without the attributes that precede it.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &Self {
        match self {
            Self::Attributed { value, .. } => value.bare(),
            bare => bare,
        }
    }

    /// Hardly any server sends attributes.
    #[cold]
    fn bare(&self) -> &Self {
        self.value()
    }

    /// As [`Frame::value`], to be changed.
    #[must_use]
    pub fn value_mut(&mut self) -> &mut Self {
        let mut frame = self;
        while let Self::Attributed { value, .. } = frame {
            frame = value;
        }
        frame
    }

    /// The value without the attributes that precede it; they are dropped.
    #[must_use]
    #[inline]
    pub fn into_value(self) -> Self {
        let mut frame = self;
        while let Self::Attributed { value, .. } = frame {
            frame = *value;
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributed(value: Frame) -> Frame {
        Frame::Attributed {
            attributes: [(Frame::Null, Frame::Error("of an attribute".into()))].into(),
            value: Box::new(value),
        }
    }

    #[test]
    fn getters_look_through_attributes() {
        let error = attributed(attributed(Frame::BlobError("ERR".into())));
        assert_eq!(error.error(), Some(&Bytes::from("ERR")));
        assert_eq!(attributed(Frame::Integer(7)).as_integer(), Some(7));
        assert_eq!(attributed(Frame::Simple("a".into())).as_bytes(), Some(&Bytes::from("a")));
        assert_eq!(attributed(attributed(Frame::Null)).into_value(), Frame::Null);
    }

    #[test]
    fn getters_return_nothing_of_another_type() {
        assert_eq!(Frame::Simple("ERR".into()).error(), None);
        assert_eq!(attributed(Frame::Null).error(), None);
        assert_eq!(Frame::Bulk("7".into()).as_integer(), None);
        assert_eq!(Frame::Error("a".into()).as_bytes(), None);
        assert_eq!(Frame::BigNumber("1".into()).as_bytes(), None);
    }

    #[test]
    fn doubles_are_rounded_as_the_standard_library_does() {
        let number = |text: &'static str| attributed(Frame::Double(text.into())).as_double();
        assert_eq!(number("0.1"), Some(0.1));
        assert_eq!(number("1e400"), Some(f64::INFINITY));
        assert_eq!(number("1e-400"), Some(0.0));
        assert!(number("-nan").unwrap().is_nan());
        assert_eq!(number("0x1p3"), None, "no decoder makes such a frame");
        assert_eq!(Frame::Integer(1).as_double(), None);
    }

    #[test]
    fn types_differ_whatever_they_hold() {
        let text = || Bytes::from("1");
        let frames = [
            Frame::Simple(text()),
            Frame::Error(text()),
            Frame::Integer(1),
            Frame::Bulk(text()),
            Frame::Array([].into()),
            Frame::Null,
            Frame::Boolean(true),
            Frame::Double(text()),
            Frame::BigNumber(text()),
            Frame::BlobError(text()),
            Frame::Verbatim { format: *b"txt", text: text() },
            Frame::Map([].into()),
            Frame::Set([].into()),
            Frame::Push([].into()),
            attributed(Frame::Null),
        ];
        for (i, a) in frames.iter().enumerate() {
            for (j, b) in frames.iter().enumerate() {
                assert_eq!(a == b, i == j, "{a:?} and {b:?}");
            }
        }
    }

    /// Frames are moved often: neither type may grow unnoticed.
    #[test]
    fn a_frame_is_small_and_an_option_of_it_costs_nothing() {
        assert!(size_of::<Frame>() <= 40);
        assert_eq!(size_of::<Result<Option<Frame>, crate::DecodeError>>(), size_of::<Frame>());
    }
}
