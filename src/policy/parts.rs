//! Searches in short texts: std's are made for long ones, and each is more code than all of these.

/// Where `part` begins in `text`.
#[inline(never)]
pub(crate) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|it| it == part)
}

/// The text before the first `by`, and after it.
#[inline(never)]
pub(crate) fn parted<'a>(text: &'a str, by: &str) -> Option<(&'a str, &'a str)> {
    let (before, rest) = text.split_at(find(text.as_bytes(), by.as_bytes())?);
    Some((before, &rest[by.len()..]))
}

/// The parts of the text between all `by`.
pub(crate) fn split<'a>(text: &'a str, by: &'static str) -> impl Iterator<Item = &'a str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || next_of(&mut rest, by))
}

#[inline(never)]
fn next_of<'a>(rest: &mut Option<&'a str>, by: &str) -> Option<&'a str> {
    let text = rest.take()?;
    let Some((before, behind)) = parted(text, by) else { return Some(text) };
    *rest = Some(behind);
    Some(before)
}

/// The text in lower case.
#[inline(never)]
pub(crate) fn lower(text: &str) -> String {
    text.to_ascii_lowercase()
}

/// Whether `text` contains `part`.
#[inline(never)]
pub(crate) fn has(text: &str, part: &str) -> bool {
    find(text.as_bytes(), part.as_bytes()).is_some()
}

#[cfg(test)]
mod tests;
