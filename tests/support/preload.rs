//! Small C libraries that are preloaded into a program to replace system functions.

use std::path::Path;
use std::process::Command;

/// Compiles this C source to a library.
pub fn build(source: &str, library: &Path) {
    let file = library.with_extension("c");
    std::fs::write(&file, source).expect("the library's directory can be written");
    let flags = ["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"];
    let built = Command::new("cc").args(flags).args([library, &file]).arg("-ldl").output();
    let built = built.expect("cc is there: see scripts/setup.sh");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}
