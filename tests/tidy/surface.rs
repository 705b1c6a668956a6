//! What a default build shows at the crate's root and in its modules: the fewer names, the sooner they are known.

use crate::Finding;
use crate::source::Source;

/// What a reader of the first page of the documentation has to look through.
const ITEMS_MAX: usize = 35;

/// Of the crate's root, `lib.rs`.
pub(crate) fn check_surface(root: &Source) -> Vec<Finding> {
    let names = names(root);
    if names.len() <= ITEMS_MAX {
        return Vec::new();
    }
    let rule = format!("{} public items by default; at most {ITEMS_MAX}: {names:?}", names.len());
    vec![Finding::new(1, rule)]
}

/// What is exported without a feature, whichever module it is in.
fn names(root: &Source) -> Vec<&str> {
    let (mut names, mut at, mut is_gated) = (Vec::new(), 0, false);
    while at < root.tokens.len() {
        match (root.word(at), root.word(at + 1)) {
            ("#", "[") => {
                is_gated |= root.word(at + 2) == "cfg";
                at = behind(root, at + 1);
            }
            ("pub", "use") => {
                let end = (at..root.tokens.len()).find(|at| root.word(*at) == ";");
                let end = end.expect("a `use` ends");
                let is_name = |at: &usize| {
                    let is_last = matches!(root.word(at + 1), "," | "}" | ";");
                    is_last && root.word(*at).starts_with(char::is_alphabetic)
                };
                if !is_gated {
                    names.extend((at + 2..end).filter(is_name).map(|at| root.word(at)));
                }
                (at, is_gated) = (end + 1, false);
            }
            ("pub", "mod") if !is_gated && root.word(at + 3) == "{" => at += 4,
            // The end of such a module.
            ("}", _) => at += 1,
            _ => {
                let is_end = |at: &usize| matches!(root.word(*at), ";" | "{");
                let end = (at..root.tokens.len()).find(is_end).unwrap_or(root.tokens.len());
                at = if root.word(end) == "{" { behind(root, end) } else { end + 1 };
                is_gated = false;
            }
        }
    }
    names
}

/// The page of settings names each public method of `source` that takes what it sets, and returns it.
pub(crate) fn check_settings(page: &str, source: &Source) -> Vec<Finding> {
    let is_untold = |at: &usize| {
        let name = source.word(*at);
        let is_told = |end| page.contains(&format!("`{name}{end}"));
        is_setter(source, *at) && !is_told("`") && !is_told("(")
    };
    let finding = |at: usize| {
        Finding::new(source.tokens[at].line, format!("docs/settings.md lacks {}", source.word(at)))
    };
    (0..source.tokens.len()).filter(is_untold).map(finding).collect()
}

/// Whether the name of such a method is at `at`.
fn is_setter(source: &Source, at: usize) -> bool {
    let before = |count| at.checked_sub(count).map_or("", |at| source.word(at));
    let is_public = before(2) == "pub" || before(2) == "const" && before(3) == "pub";
    if before(1) != "fn" || !is_public {
        return false;
    }
    let next = |from: usize, word| (from..source.tokens.len()).find(|at| source.word(*at) == word);
    let (Some(open), Some(end)) = (next(at, "("), next(at, "{")) else { return false };
    let first = if source.word(open + 1) == "mut" { open + 2 } else { open + 1 };
    let returns = (open..end).any(|at| source.word(at) == ">" && source.word(at + 1) == "Self");
    source.word(first) == "self" && returns
}

/// Behind the bracket that closes the one at `open`.
fn behind(root: &Source, open: usize) -> usize {
    let mut depth = 0_usize;
    for at in open..root.tokens.len() {
        match root.word(at) {
            "[" | "{" | "(" => depth += 1,
            "]" | "}" | ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    root.tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_default_build_are_counted_in_each_module() {
        let root = "#![forbid(unsafe_code)] mod a; pub use a::{A, b::{B, c}};
            #[cfg(feature = \"x\")] pub mod x { pub use d::D; }
            #[cfg(feature = \"x\")] #[doc(hidden)] pub use e::E;
            pub mod y { #[cfg(feature = \"x\")] pub use f::F; pub use g::G; }
            mod z { pub use h::H; } pub use i::I;";
        assert_eq!(names(&Source::parse("src/lib.rs", root)), ["A", "B", "c", "G", "I"]);
        let many = |count: usize| -> String {
            (0..count).map(|number| format!("pub use a::A{number};")).collect()
        };
        let check = |count| check_surface(&Source::parse("src/lib.rs", many(count).as_str())).len();
        assert_eq!((check(ITEMS_MAX), check(ITEMS_MAX + 1)), (0, 1));
    }

    #[test]
    fn a_setting_that_the_page_lacks_is_found() {
        let source = "impl A { pub fn ttl(mut self, ttl: D) -> Self { self }
            pub const fn tls<T>(self, tls: T) -> Self where T: Into<Tls> { self }
            pub fn get(&self) -> Self { self.clone() } pub fn end(self) -> Guard { self.0 }
            pub(crate) fn by(mut self) -> Self { self } fn own(self) -> Self { self } }";
        let source = Source::parse("src/a.rs", source);
        let lacks = |page| -> Vec<String> {
            check_settings(page, &source).into_iter().map(|finding| finding.rule).collect()
        };
        let rules = ["docs/settings.md lacks ttl", "docs/settings.md lacks tls"];
        assert_eq!(lacks("`label`"), rules);
        assert_eq!(lacks("`ttl`, `tls_name`"), rules[1..]);
        assert!(lacks("`ttl(time)`, `tls`").is_empty());
    }
}
