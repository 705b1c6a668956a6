//! Small libraries that stand between a program and the system's: they are preloaded into it.

use std::path::Path;
use std::process::Command;

/// Builds the library of this source in C.
pub fn build(source: &str, library: &Path) {
    let file = library.with_extension("c");
    std::fs::write(&file, source).expect("the library's directory can be written");
    let flags = ["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"];
    let built = Command::new("cc").args(flags).args([library, &file]).arg("-ldl").output();
    let built = built.expect("cc is there: see scripts/setup.sh");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}
