//! No circle among files: a reader of one file can read what it names next, and comes to an end.
//!
//! A file names another by a path; one that leads through a re-export names the file that has the item.
//! Declaring a module names nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::source::Source;

type Module = Vec<String>;

/// The modules of one crate, and the file that each is in.
#[derive(Default)]
struct Crate<'a> {
    files: BTreeMap<Module, &'a Source>,
    /// What each module imports, by the name that it has there.
    imports: BTreeMap<Module, BTreeMap<String, Module>>,
}

/// The findings on one crate's files, each beside its path.
pub(crate) fn check(sources: &[Source]) -> Vec<(String, Vec<Finding>)> {
    let told = circles(sources).into_iter().map(|circle| {
        let arrows: Vec<String> = circle
            .iter()
            .map(|(file, names)| format!("{file} names {}", names.join(", ")))
            .collect();
        let rule = format!("a circle of {} files: {}", circle.len(), arrows.join("; "));
        (circle.keys().next().cloned().unwrap_or_default(), vec![Finding::new(1, rule)])
    });
    told.collect()
}

/// The files of a circle, and what each names of it.
type Circle = BTreeMap<String, Vec<String>>;

/// The largest sets of files each of which leads to all others of its set.
fn circles(sources: &[Source]) -> Vec<Circle> {
    let arrows = arrows(sources);
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|file| (file.as_str(), reachable(&arrows, file))).collect();
    let mut circles = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (file, reached) in &reach {
        if seen.contains(file) || !reached.contains(file) {
            continue;
        }
        let files: BTreeSet<&str> =
            reached.iter().filter(|other| reach[**other].contains(file)).copied().collect();
        let names = |file: &str| {
            arrows[file].iter().filter(|to| files.contains(to.as_str())).cloned().collect()
        };
        circles.push(files.iter().map(|file| ((*file).to_owned(), names(file))).collect());
        seen.extend(files);
    }
    circles
}

fn reachable<'a>(arrows: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(file) = open.pop() {
        for next in &arrows[file] {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}

/// Which files each file names.
fn arrows(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = Crate::default();
    // The root, also of a crate without one.
    let root = Source::parse("src/lib.rs", "");
    all.files.insert(Module::new(), &root);
    for source in sources.iter().filter(|source| !source.tokens.is_empty()) {
        all.files.insert(module_of(&source.path), source);
    }
    for (module, source) in &all.files {
        let imports = imports(module, source);
        all.imports.insert(module.clone(), imports);
    }
    let named = |module: &Module, source: &Source| {
        let paths = paths(module, source, &all.files);
        let files = paths.iter().map(|path| all.files[&all.resolve(path, 0)].path.clone());
        files.filter(|file| *file != source.path).collect()
    };
    all.files.iter().map(|(module, source)| (source.path.clone(), named(module, source))).collect()
}

/// `src/net/pool.rs` is `net::pool`; the crate's root is nothing.
fn module_of(path: &str) -> Module {
    let (_, path) = path.rsplit_once("src/").expect("it is below src");
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    if ["lib", "main"].contains(&path) {
        return Vec::new();
    }
    path.split('/').map(str::to_owned).collect()
}

impl Crate<'_> {
    /// The module that has what a path from the root leads to.
    fn resolve(&self, path: &[String], hops: usize) -> Module {
        let mut at: Module = Vec::new();
        for (index, segment) in path.iter().enumerate() {
            let child = [&at[..], std::slice::from_ref(segment)].concat();
            if self.files.contains_key(&child) {
                at = child;
                continue;
            }
            // A bound, because two globs may import one another.
            let imported = self.imports.get(&at).and_then(|imports| imports.get(segment));
            return match imported {
                Some(target) if hops < 8 => {
                    self.resolve(&[&target[..], &path[index + 1..]].concat(), hops + 1)
                }
                _ => at,
            };
        }
        at
    }
}

/// What a file's `use`s at its head bring in.
fn imports(module: &Module, source: &Source) -> BTreeMap<String, Module> {
    let mut imports = BTreeMap::new();
    let (mut index, mut open_braces) = (0, 0_usize);
    while index < source.tokens.len() {
        match source.word(index) {
            "{" => open_braces += 1,
            "}" => open_braces = open_braces.saturating_sub(1),
            "use" if open_braces == 0 => {
                let (tree, end) = use_tree(source, index + 1);
                let named = |(path, name): (Module, String)| (name, absolute(module, &path));
                imports.extend(tree.into_iter().map(named));
                index = end;
                continue;
            }
            _ => {}
        }
        index += 1;
    }
    imports
}

/// All paths of a file that may lead to another of the crate, from the root.
fn paths(module: &Module, source: &Source, files: &BTreeMap<Module, &Source>) -> Vec<Module> {
    let mut paths = Vec::new();
    let mut index = 0;
    let mut module = module.clone();
    // The inline modules that are open here: how many braces were outside of each.
    let (mut open_braces, mut inline) = (0_usize, Vec::new());
    while index < source.tokens.len() {
        let word = source.word(index);
        match word {
            "mod" if source.word(index + 2) == "{" => {
                inline.push(open_braces);
                module.push(source.word(index + 1).to_owned());
            }
            "{" => open_braces += 1,
            "}" => {
                open_braces = open_braces.saturating_sub(1);
                if inline.last() == Some(&open_braces) {
                    inline.pop();
                    module.pop();
                }
            }
            _ => {}
        }
        // A visibility names nothing: `pub(in crate::a)`.
        let is_shown = index > 1 && source.word(index - 2) == "(" && source.word(index - 1) == "in";
        let is_within = index > 0 && source.word(index - 1) == "::" || is_shown;
        let child = [&module[..], &[word.to_owned()]].concat();
        let begins = ["crate", "super", "self"].contains(&word) || files.contains_key(&child);
        if word == "use" {
            let (tree, end) = use_tree(source, index + 1);
            let named = tree.into_iter().map(|(path, _)| path);
            let is_ours = |path: &Module| {
                let child = [&module[..], &path[..1]].concat();
                ["crate", "super", "self"].contains(&path[0].as_str()) || files.contains_key(&child)
            };
            paths.extend(named.filter(is_ours).map(|path| absolute(&module, &path)));
            index = end;
        } else if begins && !is_within && source.word(index + 1) == "::" {
            let (tree, end) = use_tree(source, index);
            paths.extend(tree.into_iter().map(|(path, _)| absolute(&module, &path)));
            index = end.max(index + 1);
        } else {
            index += 1;
        }
    }
    paths
}

/// From the root, of a path as it stands in a module.
fn absolute(module: &Module, path: &[String]) -> Module {
    let climbs = path.iter().take_while(|segment| *segment == "super").count();
    match path[0].as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [&module[..], &path[1..]].concat(),
        "super" => {
            let base = &module[..module.len().saturating_sub(climbs)];
            [base, &path[climbs..]].concat()
        }
        _ => [&module[..], path].concat(),
    }
}

/// The paths of the tree that begins at `index`, each with the name that it gets, and where it ends.
fn use_tree(source: &Source, mut index: usize) -> (Vec<(Module, String)>, usize) {
    let mut path: Module = Vec::new();
    loop {
        match source.word(index) {
            "{" => {
                let mut all = Vec::new();
                index += 1;
                while !["}", ""].contains(&source.word(index)) {
                    let (branch, end) = use_tree(source, index);
                    all.extend(branch.into_iter().map(|(rest, name)| (join(&path, rest), name)));
                    index = end + usize::from(source.word(end) == ",");
                    index = index.max(end);
                }
                return (all, index + 1);
            }
            "*" => return (vec![(path, "*".to_owned())], index + 1),
            word => path.push(word.to_owned()),
        }
        if source.word(index + 1) != "::" {
            break;
        }
        index += 2;
    }
    let name = path.last().cloned().unwrap_or_default();
    if source.word(index + 1) == "as" {
        return (vec![(path, source.word(index + 2).to_owned())], index + 3);
    }
    (vec![(path, name)], index + 1)
}

fn join(path: &Module, rest: Module) -> Module {
    // `a::{self}` is `a`.
    let rest = if rest == ["self"] && !path.is_empty() { Vec::new() } else { rest };
    [&path[..], &rest[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<Source> =
            all.iter().map(|(path, text)| Source::parse(format!("src/{path}"), text)).collect();
        let short = |file: &String| file.trim_start_matches("src/").to_owned();
        circles(&sources).iter().map(|circle| circle.keys().map(short).collect()).collect()
    }

    #[test]
    fn files_that_name_one_another_are_a_circle() {
        let two = ["a.rs", "b.rs"];
        assert_eq!(files(&[("a.rs", "use crate::b::B;"), ("b.rs", "use super::a;")]), [two]);
        assert_eq!(
            files(&[("a.rs", "use crate::{x, b::{B, C}};"), ("b.rs", "fn f() { super::a::g() }")]),
            [two]
        );
        let three =
            [("a.rs", "use crate::b;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use super::a::A;")];
        assert_eq!(files(&three), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn a_child_that_names_its_parents_items_is_a_circle_where_the_parent_names_it() {
        let child = ("a/b.rs", "use super::A;");
        assert_eq!(files(&[("a.rs", "mod b; use b::B; struct A;"), child]), [["a.rs", "a/b.rs"]]);
        assert_eq!(files(&[("a.rs", "mod b; fn f() { b::g() }"), child]), [["a.rs", "a/b.rs"]]);
        assert_eq!(files(&[("a.rs", "mod b; struct A;"), child]), [[""; 0]; 0]);
    }

    #[test]
    fn a_re_export_names_the_file_that_has_the_item() {
        let root = ("a/mod.rs", "mod b; mod c; pub use b::B; pub(crate) use self::c::{C as D, E};");
        assert_eq!(
            files(&[root, ("a/b.rs", "use super::E;"), ("a/c.rs", "struct E;")]),
            [[""; 0]; 0]
        );
        let both = [root, ("a/b.rs", "use super::D;"), ("a/c.rs", "use crate::a::B;")];
        assert_eq!(files(&both), [["a/b.rs", "a/c.rs"]]);
    }

    #[test]
    fn what_only_tests_name_is_no_circle() {
        let tests = "struct A; #[cfg(test)] mod tests { use crate::b::B; }";
        assert_eq!(files(&[("a.rs", tests), ("b.rs", "use crate::a::A;")]), [[""; 0]; 0]);
    }

    #[test]
    fn a_circle_is_told_with_its_arrows() {
        let sources = [
            Source::parse("src/a.rs", "use crate::b;"),
            Source::parse("src/b.rs", "use crate::a;"),
        ];
        let told = check(&sources);
        assert_eq!(told.len(), 1);
        let text = "a circle of 2 files: src/a.rs names src/b.rs; src/b.rs names src/a.rs";
        assert_eq!(told[0].1, [Finding::new(1, text)]);
    }
}
