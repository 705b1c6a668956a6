//! Lengths, headers and promises: what a reader meets before the code.

use std::collections::BTreeSet;

use crate::Finding;
use crate::source::Source;

/// A file is as long as its one subject: 200 to 600 lines. Every project that we learned from has a
/// runaway file that passed 1000 by small steps.
const SOURCE_LINES_MAX: usize = 600;

/// About three screens: what a reader gives a README before deciding.
const README_LINES_MAX: usize = 120;

/// The default build is part of what a user adopts; comparable crates bring 62 to 84.
const DEPENDENCIES_MAX: usize = 25;

pub(crate) fn check_length(source: &Source) -> Vec<Finding> {
    let count = source.line_count;
    if count <= SOURCE_LINES_MAX {
        return Vec::new();
    }
    let rule = format!("{count} lines without tests; at most {SOURCE_LINES_MAX}: split the file");
    vec![Finding::new(SOURCE_LINES_MAX, rule)]
}

pub(crate) fn check_lua_header(script: &str) -> Vec<Finding> {
    let header: Vec<&str> =
        script.lines().map_while(|line| line.strip_prefix("--")).map(str::trim).collect();
    let lacks = |label: &&str| {
        let mut words = header.iter().filter_map(|line| line.strip_prefix(label));
        !words.any(|rest| rest.starts_with([' ', ':']) && rest.len() > 1)
    };
    ["KEYS", "ARGV", "Reply", "Atomic"]
        .into_iter()
        .filter(lacks)
        .map(|label| Finding::new(1, format!("the header has no line that begins with {label}")))
        .collect()
}

pub(crate) fn check_readme(readme: &str, manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let count = readme.lines().count();
    if count > README_LINES_MAX {
        let rule = format!("{count} lines; at most {README_LINES_MAX}: move some elsewhere");
        findings.push(Finding::new(README_LINES_MAX, rule));
    }
    let manifest_version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .map(|version| version.trim().trim_matches('"'))
        .expect("the manifest states a rust-version");
    let stated: Vec<(usize, String)> = (1..)
        .zip(readme.lines())
        .flat_map(|(line, text)| rust_versions(text).map(move |version| (line, version)))
        .collect();
    if stated.is_empty() {
        findings.push(Finding::new(1, format!("it does not say \"Rust {manifest_version}\"")));
    }
    findings.extend(stated.into_iter().filter(|(_, version)| version != manifest_version).map(
        |(line, version)| {
            let rule = format!("it says Rust {version}, and Cargo.toml {manifest_version}");
            Finding::new(line, rule)
        },
    ));
    findings
}

/// Every version that follows "Rust", "rustc", "rust-version" or "MSRV" in a line.
fn rust_versions(line: &str) -> impl Iterator<Item = String> {
    let lower = line.to_ascii_lowercase();
    let mut versions = Vec::new();
    for (at, _) in lower.match_indices("rust").chain(lower.match_indices("msrv")) {
        let name_end =
            lower[at..].find(|character: char| !character.is_alphabetic() && character != '-');
        let Some(name_end) = name_end else { continue };
        // Between name and number: a space, a colon, an equals sign, quotes, a badge's hyphen.
        let behind = lower[at + name_end..].trim_start_matches([' ', ':', '=', '"', '-', '`']);
        let is_number = |character: char| character.is_ascii_digit() || character == '.';
        let end = behind.find(|character| !is_number(character)).unwrap_or(behind.len());
        let version = behind[..end].trim_end_matches('.');
        if version.contains('.') {
            versions.push(version.to_owned());
        }
    }
    versions.into_iter()
}

/// Each line of the tables of claims names tests as `file: name`, and they are there: `read` gives a
/// file's text.
pub(crate) fn check_guarantees(page: &str, read: impl Fn(&str) -> String) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_of_claims = false;
    for (line, text) in (1..).zip(page.lines()) {
        let is_head = text.ends_with("| Shown by |");
        is_of_claims = is_head || is_of_claims && text.starts_with('|');
        if !is_of_claims || is_head || text.starts_with("|-") {
            continue;
        }
        let quoted = text.split('`').skip(1).step_by(2);
        let tests: Vec<_> = quoted.filter_map(|test| test.split_once(".rs: ")).collect();
        if tests.is_empty() {
            findings.push(Finding::new(line, "it names no test"));
        }
        let is_missing = |(file, name): &(&str, &str)| {
            !read(&format!("{file}.rs")).contains(&format!("fn {name}("))
        };
        findings.extend(tests.into_iter().filter(is_missing).map(|(file, name)| {
            Finding::new(line, format!("there is no test {name} in {file}.rs"))
        }));
    }
    findings
}

/// A page that docs.rs shows too, where files are not beside it. `label` says whether
/// `lib.rs` has a label lead somewhere there.
pub(crate) fn check_links(page: &str, label: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line, rule: String| findings.push(Finding::new(line, rule));
    for (line, text) in (1..).zip(page.lines()) {
        let target = |behind: &'_ str, end| behind.split(end).next().unwrap_or_default().to_owned();
        for target in text.split("](").skip(1).map(|behind| target(behind, ')')) {
            if !["#", "https://"].iter().any(|whole| target.starts_with(whole)) {
                find(line, format!("({target}) is dead at docs.rs or on GitHub: write [label]"));
            }
        }
        for name in text.split("][").skip(1).map(|behind| target(behind, ']')) {
            let at_end = page.split(&format!("\n[{name}]: ")).nth(1);
            if at_end.is_none() {
                find(line, format!("[{name}] has no definition at the end, for GitHub"));
            }
            if !label(&name) && !at_end.is_some_and(|it| it.starts_with("https://")) {
                find(line, format!("[{name}] has no definition before the page in lib.rs"));
            }
        }
    }
    findings
}

/// Phrases that strangers stumble over, each with what to write.
const AVOIDED: [(&str, &str); 10] = [
    ("so many", "the number, or its noun"),
    ("for so long", "the time, or its noun"),
    ("all the same", "anyway"),
    ("whoever", "the noun"),
    ("whom", "the noun"),
    ("who waits", "a waiter"),
    ("who comes", "a newcomer"),
    ("who asks", "the caller"),
    ("be had", "acquired, or available"),
    ("anew", "again"),
];

/// In a page for users.
pub(crate) fn check_phrases(text: &str) -> Vec<Finding> {
    find_phrases(text, &AVOIDED)
}

/// In the comments of a source file, where each party that acts has a noun.
pub(crate) fn check_comments(source: &str) -> Vec<Finding> {
    let comment = |line: &str| line.split_once("//").map_or("", |(_, comment)| comment).to_owned();
    let comments: Vec<String> = source.lines().map(comment).collect();
    find_phrases(
        &comments.join("\n"),
        &[&AVOIDED[..], &[("who", "the noun, and that or which")]].concat(),
    )
}

fn find_phrases(text: &str, avoided: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    for (line, text) in (1..).zip(text.lines()) {
        // Names of tests, of files and of commands are not prose.
        let prose = text.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
        for (phrase, instead) in avoided {
            let stands_alone = prose.match_indices(*phrase).any(|(at, _)| {
                let (before, behind) = (&prose[..at], &prose[at + phrase.len()..]);
                !before.ends_with(is_word) && !behind.starts_with(is_word)
            });
            if stands_alone {
                findings.push(Finding::new(line, format!("\"{phrase}\": write {instead}")));
            }
        }
    }
    findings
}

/// `tree` is what `cargo tree --prefix none` prints.
pub(crate) fn check_dependencies(tree: &str) -> Vec<Finding> {
    let crates: BTreeSet<String> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some(format!("{} {}", words.next()?, words.next()?))
        })
        .filter(|name| !name.starts_with("leasehold ") && !name.starts_with("leasehold-resp "))
        .collect();
    assert!(!crates.is_empty(), "no dependency in:\n{tree}");
    if crates.len() <= DEPENDENCIES_MAX {
        return Vec::new();
    }
    let count = crates.len();
    let rule = format!("{count} crates by default; at most {DEPENDENCIES_MAX}: {crates:?}");
    vec![Finding::new(1, rule)]
}

/// No feature is on by default, `full` has all but `testing`, and `page` names each. One that begins with `_` is no
/// user's.
pub(crate) fn check_features(manifest: &str, page: &str) -> Vec<Finding> {
    let (_, table) = manifest.split_once("\n[features]\n").expect("the manifest has features");
    let rows = table.lines().take_while(|line| !line.starts_with('['));
    let features: Vec<_> = rows.filter_map(|row| row.split_once(" = ")).collect();
    let of = |wanted: &str| features.iter().find(|(name, _)| *name == wanted).map(|(_, has)| *has);
    let names = features.iter().map(|(name, _)| *name);
    let others = names.filter(|name| *name != "default" && !name.starts_with('_'));
    let quoted = others.clone().filter(|name| !["full", "testing"].contains(name));
    let all = quoted.map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let mut findings = Vec::new();
    if of("default") != Some("[]") {
        findings.push(Finding::new(1, "Cargo.toml has a feature on by default"));
    }
    if of("full") != Some(format!("[{all}]").as_str()) {
        findings.push(Finding::new(1, format!("in Cargo.toml `full` is not [{all}]")));
    }
    let unnamed = others.filter(|name| !page.contains(&format!("`{name}`")));
    findings.extend(unnamed.map(|name| Finding::new(1, format!("it lacks the feature `{name}`"))));
    findings
}

/// Each part of `.ci/run` has a machine in the workflow, and its lints try each feature of the manifest.
pub(crate) fn check_parts(run: &str, workflow: &str, manifest: &str) -> Vec<Finding> {
    let lists = run.lines().filter_map(|line| {
        let (name, list) = line.split_once("=\"")?;
        ["on_servers", "without_servers", "by_name"]
            .contains(&name)
            .then_some(list.trim_end_matches('"'))
    });
    let parts: BTreeSet<&str> = lists.flat_map(str::split_whitespace).collect();
    let rows = workflow.lines().filter_map(|line| line.strip_prefix("          - "));
    let machines: BTreeSet<&str> = rows.collect();
    let mut findings = Vec::new();
    for part in parts.symmetric_difference(&machines) {
        findings.push(Finding::new(
            1,
            format!("`{part}` is not in both .ci/run and the matrix of parts"),
        ));
    }
    let (_, table) = manifest.split_once("\n[features]\n").expect("the manifest has features");
    let names = table.lines().take_while(|line| !line.starts_with('['));
    let names = names.filter_map(|row| row.split_once(" = ")).map(|(name, _)| name);
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let tried: Vec<&str> = run.split(|letter| !is_of_name(letter)).collect();
    for name in names.filter(|name| !["default", "full"].contains(name) && !name.starts_with('_')) {
        if !tried.contains(&name) {
            findings
                .push(Finding::new(1, format!("no lint of .ci/run tries the feature `{name}`")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let body = |count: usize| "fn f() {}\n".repeat(count);
        let check = |text: &str| check_length(&Source::parse("src/net/x.rs", text)).len();
        assert_eq!(check(&body(SOURCE_LINES_MAX)), 0);
        assert_eq!(check(&body(SOURCE_LINES_MAX + 1)), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", body(900));
        assert_eq!(check(&(body(SOURCE_LINES_MAX) + &tests)), 0);
    }

    #[test]
    fn a_script_without_a_full_header_is_found() {
        let full = "-- x\n-- KEYS 1 a\n-- ARGV  1 b\n-- Reply: c\n-- Atomic because d\nreturn 1\n";
        assert_eq!(check_lua_header(full), []);
        assert_eq!(check_lua_header("return 1\n").len(), 4);
        assert_eq!(check_lua_header(&full.replace("ARGV", "args")).len(), 1);
        assert_eq!(check_lua_header(&full.replace("Reply: c", "Reply")).len(), 1);
        let buried = "return 1\n".to_owned() + full;
        assert_eq!(check_lua_header(&buried).len(), 4, "a header stands at the head");
    }

    #[test]
    fn a_long_or_contradicting_readme_is_found() {
        let manifest = "[workspace.package]\nrust-version = \"1.85\"\n";
        let lines = |text: &str| -> Vec<usize> {
            check_readme(text, manifest).into_iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("# A\nNeeds Rust 1.85.\n"), [0; 0]);
        assert_eq!(lines("# A\n"), [1], "it says nothing");
        let wrong = ["Rust 1.84", "rustc 1.86 or newer", "MSRV: 1.80", "rust-version = \"1.88\""];
        for statement in wrong {
            assert_eq!(lines(&format!("Rust 1.85\n{statement}\n")), [2], "{statement}");
        }
        assert_eq!(lines("![b](https://img.shields.io/badge/rust-1.70-blue)\nRust 1.85"), [1]);
        assert_eq!(lines("Rust 1.85, on Redis 7.0, for rust users of tokio 1.45"), [0; 0]);
        let long = "Rust 1.85\n".to_owned() + &"\n".repeat(README_LINES_MAX);
        assert_eq!(lines(&long), [README_LINES_MAX]);
    }

    #[test]
    fn a_phrase_to_avoid_is_found_in_prose_alone() {
        let rule = |phrase: &str, instead: &str| format!("\"{phrase}\": write {instead}");
        let found =
            check_phrases("Fine.\nWho holds it? Ends all the same, and who waits asks anew.");
        let rules = [("all the same", "anyway"), ("who waits", "a waiter"), ("anew", "again")];
        assert_eq!(found, rules.map(|(phrase, instead)| Finding::new(2, rule(phrase, instead))));
        assert_eq!(check_phrases("`tests/a.rs: who_waits_asks_anew`, be hadron"), []);
        let found = check_comments("let who = 1; /\u{2f} Who reads this\n/\u{2f}/ `who`, a reader");
        assert_eq!(found, [Finding::new(1, rule("who", "the noun, and that or which"))]);
    }

    #[test]
    fn a_guarantee_without_a_test_is_found() {
        let read = |_: &str| "async fn it_is_so() {}".to_owned();
        let check = |row: &str| {
            let table = format!("Words.\n\n| Claim | Shown by |\n|---|---|\n| x | {row} |\n");
            check_guarantees(&table, read)
        };
        assert_eq!(check("`tests/a.rs: it_is_so`"), []);
        assert_eq!(check("nobody").len(), 1);
        assert_eq!(check_guarantees("| Name | Key |\n|---|---|\n| x | y |\n", read), []);
        let rule = "there is no test it_is in tests/a.rs";
        assert_eq!(check("`tests/a.rs: it_is_so`, `tests/a.rs: it_is`"), [Finding::new(5, rule)]);
    }

    #[test]
    fn a_link_that_is_dead_in_one_of_two_places_is_found() {
        let check = |text: &str| {
            check_links(&format!("{text}\n\n[a]: a.md\n[c]: https://c\n[d]: d.md\n"), |it| {
                it == "a"
            })
            .len()
        };
        assert_eq!(check("[x](#y), [x](https://x.y), [x][a] and `a[0]`"), 0);
        assert_eq!(check("[x](a.md) or [x](../b.md)"), 2);
        assert_eq!(check("[`X`](crate::X)"), 1);
        assert_eq!((check("[x][b]"), check("[x][c]"), check("[x][d]")), (2, 0, 1));
    }

    #[test]
    fn a_feature_that_is_on_or_left_out_or_unnamed_is_found() {
        let check = |default: &str, full: &str, page: &str| {
            let rows = format!(
                "default = [{default}]\n_b = []\nfull = [{full}]\na = []\n# C.\ntesting = []\n"
            );
            check_features(&format!("[package]\n\n[features]\n{rows}\n[lints]\nx = 1\n"), page)
                .len()
        };
        let page = "`a`, `full`, `testing`";
        assert_eq!(check("", "\"a\"", page), 0);
        assert_eq!(check("\"a\"", "\"a\"", page), 1);
        assert_eq!(check("", "", page), 1);
        assert_eq!(check("", "\"a\", \"testing\"", page), 1);
        assert_eq!(check("", "\"a\"", "`full`, a, `testing`"), 1);
    }

    #[test]
    fn a_part_without_a_machine_and_a_feature_that_is_not_tried_are_found() {
        let run =
            "on_servers=\"a\"\nwithout_servers=\"b\"\nby_name=\"c\"\nfor features in x y,z-z; do\n";
        let machines =
            |parts: [&str; 3]| parts.map(|part| format!("          - {part}\n")).concat();
        let manifest = |rows: &str| {
            format!("[package]\n\n[features]\ndefault = []\n_q = []\n{rows}\n[lints]\n")
        };
        let check = |parts, rows: &str| check_parts(run, &machines(parts), &manifest(rows)).len();
        assert_eq!(check(["a", "b", "c"], "x = []\nz-z = []"), 0);
        assert_eq!(check(["a", "b", "d"], ""), 2);
        assert_eq!(check(["a", "b", "c"], "w = []"), 1);
    }

    #[test]
    fn a_large_tree_is_found_and_repeats_count_once() {
        let tree = |count: usize| -> String {
            let line = |number: usize| format!("crate{number} v1.0.0\ncrate{number} v1.0.0 (*)\n");
            let own = "leasehold v0.1.0 (/x)\nleasehold-resp v0.1.0 (/x/resp)\n".to_owned();
            own + &(0..count).map(line).collect::<String>()
        };
        assert_eq!(check_dependencies(&tree(DEPENDENCIES_MAX)), []);
        assert_eq!(check_dependencies(&tree(DEPENDENCIES_MAX + 1)).len(), 1);
        let two_versions = tree(DEPENDENCIES_MAX) + "crate1 v2.0.0\n";
        assert_eq!(check_dependencies(&two_versions).len(), 1);
    }
}
