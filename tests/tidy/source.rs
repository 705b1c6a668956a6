//! Rust source as tokens, with comments, literals and test code left out: rules speak of what the
//! program does.

/// A word or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// An identifier, a number, `::`, or one sign.
    pub(crate) text: String,
    /// From 1.
    pub(crate) line: usize,
}

/// One source file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// From the project's root, such as `src/net/pool.rs`.
    pub(crate) path: String,
    /// All but test code; none in a file of tests.
    pub(crate) tokens: Vec<Token>,
    /// How many lines are not test code; 0 in a file of tests.
    pub(crate) line_count: usize,
}

impl Source {
    pub(crate) fn parse(path: impl Into<String>, text: &str) -> Self {
        let path = path.into();
        if path.split('/').any(|part| part == "tests" || part == "tests.rs") {
            return Self { path, tokens: Vec::new(), line_count: 0 };
        }
        let (tokens, test_line_count) = without_tests(&tokenize(text));
        let line_count = text.lines().count() - test_line_count;
        Self { path, tokens, line_count }
    }

    pub(crate) fn is_crate_root(&self) -> bool {
        let file = self.path.rsplit('/').next().unwrap_or_default();
        matches!(file, "lib.rs" | "main.rs")
    }

    /// Where `words` stand in a row.
    pub(crate) fn find(&self, words: &[&str]) -> impl Iterator<Item = usize> {
        let windows = self.tokens.windows(words.len());
        let is_match = |window: &[Token]| window.iter().zip(words).all(|(a, b)| a.text == *b);
        let lines: Vec<usize> =
            windows.filter(|window| is_match(window)).map(|window| window[0].line).collect();
        lines.into_iter()
    }

    /// The text of the token at `index`; "" past the end.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| token.text.as_str())
    }

    /// The first segments of the path or use tree at `index`, with their lines: `net` for
    /// `net::Pool`, `net` and `lock` for `{net::{Pool, Slot}, lock}`.
    pub(crate) fn first_segments(&self, index: usize) -> Vec<Token> {
        if self.word(index) != "{" {
            return self.tokens.get(index).cloned().into_iter().collect();
        }
        let (mut depth, mut segments) = (0_usize, Vec::new());
        for (offset, token) in self.tokens[index..].iter().enumerate() {
            match token.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ if depth == 1 && matches!(self.word(index + offset - 1), "{" | ",") => {
                    segments.push(token.clone());
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        segments
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Cuts `text` into tokens. It knows as much of Rust as the rules need.
fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let word_length = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        let (length, is_token) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (block_comment_length(rest), false)
        } else if let Some(length) = string_length(rest) {
            (length, false)
        } else if first == '\'' {
            (quote_length(rest), false)
        } else if word_length > 0 {
            (word_length, true)
        } else if rest.starts_with("::") {
            (2, true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        let (piece, behind) = rest.split_at(length);
        if is_token {
            tokens.push(Token { text: piece.to_owned(), line });
        }
        line += piece.matches('\n').count();
        rest = behind;
    }
    tokens
}

fn block_comment_length(text: &str) -> usize {
    let (mut depth, mut length) = (0_usize, 0);
    loop {
        let rest = &text[length..];
        match rest.find("*/") {
            None => return text.len(),
            Some(end) => match rest.find("/*").filter(|start| *start < end) {
                Some(start) => (depth, length) = (depth + 1, length + start + 2),
                None => (depth, length) = (depth - 1, length + end + 2),
            },
        }
        if depth == 0 {
            return length;
        }
    }
}

/// The length of the string literal that `text` begins with, prefix and hashes included.
fn string_length(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let hashes = text[prefix.len()..].find('"')?;
    if hashes > 0 && !prefix.contains('r') {
        return None;
    }
    let opening = prefix.len() + hashes + 1;
    let body = &text[opening..];
    if prefix.contains('r') {
        let closing = format!("\"{}", "#".repeat(hashes));
        return Some(body.find(&closing).map_or(text.len(), |end| opening + end + closing.len()));
    }
    let mut escaped = false;
    let end = body.find(|character| {
        let closes = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        closes
    });
    Some(end.map_or(text.len(), |end| opening + end + 1))
}

/// The length of a character literal, or of a lifetime's quote alone.
fn quote_length(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((escaped, _))) => {
            let closing = text[escaped + 1..].find('\'');
            closing.map_or(text.len(), |closing| escaped + 1 + closing + 1)
        }
        (Some(_), Some((closing, '\''))) => closing + 1,
        _ => 1,
    }
}

/// Leaves out every item under `#[cfg(test)]`; also says how many lines these span.
fn without_tests(tokens: &[Token]) -> (Vec<Token>, usize) {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut line_count, mut index) = (Vec::new(), 0, 0);
    while index < tokens.len() {
        let here = &tokens[index..];
        let is_test = here.len() > ATTRIBUTE.len()
            && here.iter().zip(ATTRIBUTE).all(|(token, expected)| token.text == expected);
        if is_test {
            let length = item_length(here);
            line_count += here[length - 1].line - here[0].line + 1;
            index += length;
        } else {
            kept.push(tokens[index].clone());
            index += 1;
        }
    }
    (kept, line_count)
}

/// How many tokens an item has: up to its `;`, or to the end of its block.
fn item_length(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => return index + 1,
            "}" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        Source::parse("src/x.rs", text).tokens.into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = r####"
            a // tokio
            /* tokio /* tokio */ tokio */ b
            "tokio \" tokio" c b"tokio\\" d r#"tokio " tokio"# e br"\" f
            'x' g '\'' h '"' i &'static j b'"' k '\u{1F600}' l "é" m
        "####;
        let code: String =
            words(text).into_iter().filter(|word| word.len() == 1).collect::<Vec<_>>().concat();
        assert_eq!(code, "abcdefghi&jbklm");
        assert!(!words(text).contains(&"tokio".to_owned()));
    }

    #[test]
    fn lines_are_counted_across_everything() {
        let source = Source::parse("src/x.rs", "/*\n*/ \"\n\\\"\n\" a\n'\\n' b");
        let found: Vec<_> =
            source.tokens.iter().map(|token| (token.text.as_str(), token.line)).collect();
        assert_eq!(found, [("a", 4), ("b", 5)]);
    }

    #[test]
    fn test_code_is_left_out_and_not_counted() {
        let text = "a;\n#[cfg(test)]\nmod tests {\n    fn b() { c(); }\n}\nd;\n";
        assert_eq!(words(text), ["a", ";", "d", ";"]);
        assert_eq!(Source::parse("src/x.rs", text).line_count, 2);
        assert_eq!(words("#[cfg(test)]\nmod tests;\nd"), ["d"]);
        assert_eq!(Source::parse("src/x/tests.rs", "a").line_count, 0);
        assert_eq!(words("#[cfg(unix)] mod a { b }").concat(), "#[cfg(unix)]moda{b}");
    }

    #[test]
    fn a_use_tree_has_its_first_segments() {
        let source = Source::parse("src/x.rs", "{net::{Pool, Slot}, self, lock, c::d::{e}} f");
        let segments: Vec<_> =
            source.first_segments(0).into_iter().map(|token| token.text).collect();
        assert_eq!(segments, ["net", "self", "lock", "c"]);
    }
}
