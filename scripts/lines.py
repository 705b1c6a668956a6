#!/usr/bin/env python3
"""Counts the lines of code in Rust files that a default build compiles on Linux: no comments, no blank lines, nothing
whose `#[cfg]` does not hold there.

    scripts/lines.py FILE...
    scripts/lines.py --check    tries itself on a sample
"""

import re
import sys
from pathlib import Path

# Of what a `#[cfg]` asks for.
HOLDS = {"unix", 'target_os = "linux"'}

# Comments and literals, each as a whole; of block comments within one another, none is in these files.
PIECE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |b?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'""",
    re.DOTALL | re.VERBOSE,
)
CFG = re.compile(r"#\[cfg(\(.*?\))\]", re.DOTALL)
ASKED = re.compile(r'\b(?!any\b|all\b|not\b)\w+(?: = "[^"]*")?')
# What ends at no comma, behind its attributes.
ITEM = re.compile(
    r"""(?:\s*\#\[[^\]]*\])*\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|const\s+|unsafe\s+)*
    (?:const|enum|extern|fn|impl|let|macro_rules|mod|static|struct|trait|type|union|use)\b""",
    re.VERBOSE,
)
# Operators that are no brackets stand between spaces.
TOKEN = re.compile(r"(?<=\s)(?:[-=]>|[<>]{1,2}=?)(?=\s)|([][(){}<>,;])")
# Behind a block that is not the end.
GOES_ON = re.compile(r"\s*(?:[;,.?=|]|else\b)")
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
#[cfg(all(
    feature = "a",
    not(test),
))]
impl<A, B> J for K<A, B>
where
    A: B, B: A {}
#[cfg(any(fuzzing, doctest, windows, target_os = "macos"))]
#[derive(Clone)]
pub enum L { M, N }
struct O {
    #[cfg(feature = "a-b")]
    p: Q<R, S>,
    #[cfg(target_os = "linux")]
    t: U,
    #[cfg(feature = "a")]
    v: W,
}
fn x(y: Z, #[cfg(test)] a: A) -> O {
    #[cfg(feature = "a")]
    let b = |c, d| c < d;
    #[cfg(feature = "a")]
    if let Some(e) = f {
        g(e);
    } else {
        h();
    }
    #[cfg(feature = "a")]
    return O { p, t };
    #[cfg(not(feature = "a"))]
    match y {
        #[cfg(feature = "a")]
        A { .. } | B { .. } => c(),
        #[cfg(feature = "a")]
        D => {
            e();
        }
        F => O {
            #[cfg(feature = "a")]
            p: G::<H, I>::new(),
            t,
        },
        #[cfg(feature = "a")]
        J => k()
    }
}
'''


def without(piece):
    """Comments go, and what is in literals, but for single words."""
    if re.fullmatch(r'"[\w-]*"', piece[0]):
        return piece[0]
    return ("" if piece["comment"] else "_") + piece[0].count("\n") * ("\n" if piece["comment"] else "\n_")


def holds(predicate):
    """Whether `(any(unix, not(test)))` and the like hold: but for its words it is Python."""
    asked = ASKED.sub(lambda found: str(found[0] in HOLDS), predicate)
    return eval(asked, {"any": lambda *some: any(some), "all": lambda *each: all(each)})


def end(text, at):
    """Behind the item, statement, field, arm or argument at `at`, whose attributes may come first."""
    is_item, depth = ITEM.match(text, at), 0
    for token in TOKEN.finditer(text, at):
        mark = token[1] or "_"
        if depth == 0 and (mark in ")}]" or mark == ";" or mark == "," and not is_item):
            return token.start() if mark in ")}]" else token.end()
        depth += (mark in "([{<") - (mark in ")]}>")
        if depth == 0 and mark == "}" and not GOES_ON.match(text, token.end()):
            return token.end()
    return len(text)


def lines(text):
    text, at = PIECE.sub(without, text), 0
    while found := CFG.search(text, at):
        at = found.start()
        if holds(found[1]):
            at = found.end()
        else:
            text = text[:at] + text[end(text, found.end()) :]
    return sum(1 for line in text.splitlines() if line.strip())


if sys.argv[1:] == ["--check"]:
    assert lines(SAMPLE) == 21, lines(SAMPLE)
else:
    print(sum(lines(Path(name).read_text()) for name in sys.argv[1:]))
