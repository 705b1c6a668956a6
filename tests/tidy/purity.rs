//! What code may not touch: the clock, randomness, I/O, and memory by hand.

use crate::Finding;
use crate::source::Source;

/// The only file that reads clocks and randomness.
const CLOCK: &str = "src/clock.rs";

/// Modules of std that decisions have no business with.
const IMPURE_STD: [&str; 8] = ["env", "fs", "io", "net", "os", "process", "thread", "sync"];

/// What decides from its arguments alone, and the crates besides std that it may name.
pub(crate) const PURE: [(&str, &[&str]); 3] = [
    ("src/policy", &[]),
    ("src/machine", &["bytes", "leasehold_resp"]),
    ("src/extra", &["leasehold_resp"]),
];

/// A file of what is `PURE`.
pub(crate) fn check_purity(
    source: &Source,
    crates: &[&str],
    dependencies: &[String],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_allowed = |name: &str| crates.contains(&name);
    for (index, token) in source.tokens.iter().enumerate() {
        let word = token.text.as_str();
        let is_dependency = dependencies.iter().any(|name| name == word) && !is_allowed(word);
        if matches!(word, "async" | "await" | "Instant" | "SystemTime") {
            findings.push(Finding::new(token.line, format!("it contains {word}")));
        } else if is_dependency && source.word(index + 1) == "::" {
            findings.push(Finding::new(token.line, format!("it names the crate {word}")));
        } else if word == "std" && source.word(index + 1) == "::" {
            let segments = source.first_segments(index + 2).into_iter();
            let impure = segments.filter(|name| IMPURE_STD.contains(&name.text.as_str()));
            findings.extend(
                impure.map(|name| Finding::new(name.line, format!("it names std::{}", name.text))),
            );
        } else if word == "use" && !is_allowed(source.word(index + 1)) {
            findings.extend(foreign_use(source, index + 1));
        }
    }
    findings
}

/// An import that begins outside std and the layer itself. (`crate::` is judged with the layers.)
fn foreign_use(source: &Source, index: usize) -> Option<Finding> {
    let root = source.word(index);
    let is_known = matches!(root, "std" | "core" | "crate" | "self" | "super" | "<")
        || source.find(&["mod", root]).next().is_some()
        // A type's variants.
        || root.starts_with(|character: char| character.is_ascii_uppercase());
    let line = source.tokens.get(index)?.line;
    (!is_known).then(|| Finding::new(line, format!("it names {root}")))
}

/// The crates that a manifest names outside its dev-dependencies, as they are spelt in code.
pub(crate) fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_inside = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if let (true, Some((name, _))) = (is_inside, line.split_once('=')) {
            names.push(name.trim().replace('-', "_"));
        }
    }
    names
}

/// Clocks and randomness come from one file, so that a simulation can stand in for it.
pub(crate) fn check_clocks(source: &Source) -> Vec<Finding> {
    const READS: [&[&str]; 5] = [
        &["Instant", "::", "now"],
        &["SystemTime", "::", "now"],
        &[".", "elapsed", "("],
        &["getrandom"],
        &["clock_gettime"],
    ];
    if source.path == CLOCK {
        return Vec::new();
    }
    let findings = READS.into_iter().flat_map(|read| {
        let rule = format!("{} outside {CLOCK}", read.concat());
        source.find(read).map(move |line| Finding::new(line, rule.clone()))
    });
    findings.collect()
}

/// Where known bugs are put beside the library, or searched for.
const BUGS_IN: [&str; 6] = [
    "src/policy/mutants",
    "src/policy/model/",
    "src/policy/mastership/",
    "src/sim/",
    "src/clock/simulated.rs",
    "src/machine/mutated.rs",
];

/// Where a simulation's time, network and servers come in.
const SEAMS: [&str; 3] = [CLOCK, "src/net/transport/simulated.rs", "src/sim/"];
/// What begins an item.
const ITEMS: [&str; 13] = [
    "pub",
    "mod",
    "use",
    "fn",
    "async fn",
    "impl",
    "struct",
    "enum",
    "trait",
    "type",
    "const",
    "static",
    "thread_local!",
];

/// No branch of the library asks whether it is to have a known bug.
pub(crate) fn check_bugs(path: &str, text: &str) -> Vec<Finding> {
    if BUGS_IN.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains("Mutant::"));
    lines.map(|(line, _)| Finding::new(line, "a known bug: put it beside the library")).collect()
}

/// The library does in tests what it does for users: only whole items are there in tests alone.
pub(crate) fn check_branches(path: &str, text: &str) -> Vec<Finding> {
    if SEAMS.iter().any(|seam| path.starts_with(seam)) {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let of_tests = lines.iter().enumerate().filter(|(_, line)| {
        let condition = line.strip_prefix("#[cfg(").map(|rest| rest.trim_start_matches("not("));
        condition.is_some_and(|rest| rest.starts_with("test)"))
    });
    let is_aside = |line: &&&str| line.starts_with("#[") || line.starts_with("//");
    let is_item = |line: &str| ITEMS.iter().any(|item| line.starts_with(item));
    let is_branch = |index: usize| {
        let rest = &lines[index + 1..];
        !rest.iter().find(|line| !is_aside(line)).is_some_and(|line| is_item(line))
    };
    let branches = of_tests.filter(|(index, _)| is_branch(*index));
    branches.map(|(index, _)| Finding::new(index + 1, "only tests take this branch")).collect()
}

pub(crate) fn check_unsafe_is_forbidden(root: &Source) -> Vec<Finding> {
    const ATTRIBUTE: [&str; 8] = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
    match root.find(&ATTRIBUTE).next() {
        Some(_) => Vec::new(),
        None => vec![Finding::new(1, "the crate lacks #![forbid(unsafe_code)]")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Vec<Finding> {
        let dependencies = ["bytes", "tokio", "getrandom"].map(str::to_owned);
        check_purity(&Source::parse("src/policy/x.rs", text), &[], &dependencies)
    }

    #[test]
    fn impure_policy_is_found() {
        let table = [
            "async fn f() {}",
            "fn f() { g().await }",
            "fn f(at: SystemTime) {}",
            "fn f() { std::time::Instant::now() }",
            "fn f(at: Instant) {}",
            "fn f(at: std::net::SocketAddr) {}",
            "fn f() { bytes::Bytes::new() }",
            "fn f() { tokio::spawn(g()) }",
            "fn f() { getrandom::fill(b) }",
            "fn f() { std::thread::sleep(d) }",
            "use std::{cmp, fs::File};",
            "use rand::Rng;",
        ];
        for text in table {
            assert_eq!(policy(text).len(), 1, "{text}: {:?}", policy(text));
        }
    }

    #[test]
    fn a_crate_is_impure_unless_it_is_allowed() {
        let dependencies = ["bytes", "tokio"].map(str::to_owned);
        let machine = |text| {
            check_purity(&Source::parse("src/machine/x.rs", text), PURE[1].1, &dependencies).len()
        };
        assert_eq!(machine("use bytes::Bytes; fn f(b: bytes::BytesMut) {}"), 0);
        assert_eq!(machine("use tokio::time;"), 2);
        assert_eq!(machine("fn f() { tokio::spawn(g()) }"), 1);
    }

    #[test]
    fn a_known_bug_inside_the_library_is_found() {
        let text = "fn f() {\n    #[cfg(test)]\n    if Mutant::NoDrift.is_on() {}\n}";
        let lines =
            |path| check_bugs(path, text).iter().map(|found| found.line).collect::<Vec<_>>();
        assert_eq!(lines("src/policy/validity.rs"), [3]);
        assert_eq!(lines("src/policy/mutants/validity.rs"), [0; 0]);
    }

    #[test]
    fn a_branch_that_only_tests_take_is_found() {
        let check = |path: &str, text: &str| check_branches(path, text).len();
        for branch in ["if f() {}", "let a = b;", "Err(_) if f() => {}", "{\n    f();\n}", "f();"] {
            for condition in ["test", "not(test)"] {
                let text = format!("fn g() {{\n    #[cfg({condition})]\n    {branch}\n}}");
                assert_eq!(check("src/net/a.rs", &text), 1, "{text}");
                assert_eq!(check(SEAMS[1], &text), 0);
            }
        }
        for item in ["mod tests {}", "pub use a::B;", "#[must_use]\n    pub fn a() {}", "impl A {}"]
        {
            assert_eq!(check("src/net/a.rs", &format!("#[cfg(test)]\n    {item}")), 0, "{item}");
        }
    }

    #[test]
    fn pure_policy_is_left_alone() {
        let text = "mod quorum; pub use quorum::Verdict; use std::{cmp, time::Duration};
            use super::Moment; use Verdict::*; // tokio::spawn, async
            fn f(bytes: u64, elapsed: Duration) -> u64 { cmp::max(bytes, u64::MAX) }
            #[cfg(test)] mod tests { use proptest::prelude::*; }";
        assert_eq!(policy(text), []);
    }

    #[test]
    fn a_manifest_names_its_dependencies() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nb-c = { path = \"b\" }\nd = \"1\"\n\
            [target.'cfg(unix)'.dependencies]\ne = \"1\"\n[dev-dependencies]\nf = \"1\"\n";
        assert_eq!(dependencies(manifest), ["b_c", "d", "e"]);
    }

    #[test]
    fn a_clock_read_elsewhere_is_found() {
        let table = [
            "let now = std::time::Instant::now();",
            "let now = SystemTime :: now();",
            "let age = started.elapsed();",
            "getrandom::fill(&mut id)?;",
            "rustix::time::clock_gettime(ClockId::Boottime)",
        ];
        for text in table {
            assert_eq!(check_clocks(&Source::parse("src/net/x.rs", text)).len(), 1, "{text}");
            assert_eq!(check_clocks(&Source::parse("resp/src/x.rs", text)).len(), 1, "{text}");
            assert_eq!(check_clocks(&Source::parse(CLOCK, text)), [], "{text}");
        }
        let sound = "// Instant::now\nlet elapsed = clock.now() - started; f(elapsed)";
        assert_eq!(check_clocks(&Source::parse("src/net/x.rs", sound)), []);
    }

    #[test]
    fn a_crate_that_allows_unsafe_code_is_found() {
        let check = |text| check_unsafe_is_forbidden(&Source::parse("src/lib.rs", text)).len();
        assert_eq!(check("#![forbid(unsafe_code)]"), 0);
        assert_eq!(check("// #![forbid(unsafe_code)]"), 1);
        assert_eq!(check("#![deny(unsafe_code)]"), 1);
    }
}
