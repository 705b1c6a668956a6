//! Searches of texts that are short: the library's own are made for long ones, and each is more code than all of these.

/// Where `part` begins in `text`.
#[inline(never)]
pub(crate) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|it| it == part)
}

/// What stands before and behind the first `by`.
pub(crate) fn parted<'a>(text: &'a str, by: &str) -> Option<(&'a str, &'a str)> {
    let (before, rest) = text.split_at(find(text.as_bytes(), by.as_bytes())?);
    Some((before, &rest[by.len()..]))
}

/// The text in small letters.
#[inline(never)]
pub(crate) fn lower(text: &str) -> String {
    text.to_ascii_lowercase()
}

/// Whether `text` has `part`.
pub(crate) fn has(text: &str, part: &str) -> bool {
    find(text.as_bytes(), part.as_bytes()).is_some()
}

#[cfg(test)]
mod tests;
