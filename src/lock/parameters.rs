//! The words of one script call, kept on the stack where they are few.

/// As many as a script takes for one lock: up to here nothing is allocated.
const FEW: usize = 11;

pub(super) struct Parameters<'a> {
    few: [&'a [u8]; FEW],
    len: usize,
    /// All of them, once they are more.
    many: Vec<&'a [u8]>,
}

impl<'a> Parameters<'a> {
    /// Those of a script for `count` keys, which are to be pushed next.
    #[inline(never)]
    pub(super) fn of_keys(count: &'a [u8]) -> Self {
        let mut few: [&[u8]; FEW] = [b""; FEW];
        few[0] = count;
        Self { few, len: 1, many: Vec::new() }
    }

    #[inline(never)]
    pub(super) fn push(&mut self, word: &'a [u8]) {
        if self.len < FEW {
            self.few[self.len] = word;
        } else {
            if self.many.is_empty() {
                self.many.extend_from_slice(&self.few);
            }
            self.many.push(word);
        }
        self.len += 1;
    }

    pub(super) fn extend(&mut self, words: impl IntoIterator<Item = &'a [u8]>) {
        words.into_iter().for_each(|word| self.push(word));
    }

    pub(super) fn words(&self) -> &[&'a [u8]] {
        if self.many.is_empty() { &self.few[..self.len] } else { &self.many }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_out_as_they_went_in_however_many_they_are() {
        let texts: Vec<String> = (0..3 * FEW).map(|number| number.to_string()).collect();
        for count in 1..texts.len() {
            let mut parameters = Parameters::of_keys(texts[0].as_bytes());
            parameters.extend(texts[1..count].iter().map(String::as_bytes));
            let expected: Vec<&[u8]> = texts[..count].iter().map(String::as_bytes).collect();
            assert_eq!(parameters.words(), expected);
        }
    }
}
