//! Texts for users, side by side in the files of `tests/texts`.

use std::fmt::Write as _;

use super::repository;

/// If set, records the texts again.
const UPDATE: &str = "LEASEHOLD_UPDATE";

/// Compares texts with the file of this name, by sections, one text a line.
pub fn hold(name: &str, sections: &[(&str, Vec<String>)]) {
    let mut fresh = String::new();
    for (title, texts) in sections {
        assert!(!texts.is_empty(), "{title}: no texts");
        let separator = if fresh.is_empty() { "" } else { "\n" };
        writeln!(fresh, "{separator}# {title}\n").expect("a string takes it");
        for text in texts {
            assert!(!text.contains('\n'), "{title}: more than one line: {text}");
            writeln!(fresh, "{text}").expect("a string takes it");
        }
    }
    let path = repository("tests/texts").join(name);
    if std::env::var_os(UPDATE).is_some() {
        return std::fs::write(&path, fresh).expect("the texts can be written");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    let changed = recorded.lines().zip(fresh.lines()).find(|(old, new)| old != new);
    assert!(
        recorded == fresh,
        "{}: texts have changed, first {changed:?}: read them, and run this again with {UPDATE}=1",
        path.display()
    );
}
