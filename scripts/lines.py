#!/usr/bin/env python3
"""Counts lines of code in Rust files as a default build has them: no comments, no blank lines, no items of tests, no
items of features.

    scripts/lines.py FILE...
    scripts/lines.py --check    tries itself on a sample
"""

import re
import sys
from pathlib import Path

# Comments and literals, each as a whole; of block comments within one another, none is in these files.
PIECE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |b?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'""",
    re.DOTALL | re.VERBOSE,
)
OF_TESTS = re.compile(r"#\[cfg\((?:test|all\(test,[^\]]*)\)\]")
# In front of an item: a predicate that holds in tests, or with features, alone.
OF_FEATURES = re.compile(
    r"""\#\[cfg\((?:any|all|test|feature|_|[=,()\s])*\)\]
    (?=\s*(?:\#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|const\s+)*
    (?:const|enum|fn|impl|mod|static|struct|trait|type|use)\b)""",
    re.VERBOSE,
)
SAMPLE = '''//! A head.
use a::{B, C};
#[cfg(test)]
use d::{E};

/* Two
   lines. */
fn f<'a>(text: &'a str) -> char { // }
    g("// no comment {", r#"
 "{" "#, '{', '\\'', b'"');
}
#[cfg(test)]
#[path = "x.rs"]
mod tests;
#[cfg(all(test, unix))]
mod inner {
    fn f() {}
}
#[cfg(not(test))]
const X: [u8; 2] = [0; 2];
#[cfg(any(test, feature = "a"))]
#[path = "y.rs"]
mod y;
#[cfg(all(feature = "a", any(test, feature = "b")))]
pub(crate) const fn h() {
    i();
}
#[cfg(any(unix, feature = "a"))]
mod z;
'''


def without(piece):
    """Comments go, and what is in literals."""
    return ("" if piece["comment"] else "_") + piece[0].count("\n") * ("\n" if piece["comment"] else "\n_")


def end_of_item(text, at):
    """Behind the ";" or "}" that ends the item at `at`, whose attributes may come first."""
    depth = 0
    for index in range(at, len(text)):
        depth += (text[index] in "([{") - (text[index] in ")]}")
        if depth == 0 and (text[index] == ";" or text[index] == "}" and text[index + 1 : index + 2] != ";"):
            return index + 1
    return len(text)


def lines(text):
    text = PIECE.sub(without, text)
    while found := OF_TESTS.search(text) or OF_FEATURES.search(text):
        text = text[: found.start()] + text[end_of_item(text, found.end()) :]
    return sum(1 for line in text.splitlines() if line.strip())


if sys.argv[1:] == ["--check"]:
    assert lines(SAMPLE) == 9, lines(SAMPLE)
else:
    print(sum(lines(Path(name).read_text()) for name in sys.argv[1:]))
