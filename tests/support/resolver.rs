//! A resolver that hangs, as the system's does if its name servers do not answer.

use std::path::{Path, PathBuf};

use super::preload;

const SOURCE: &str = include_str!("resolver.c");

/// The name whose lookup never ends in programs with the library.
pub const HANGS: &str = "hangs.invalid";

/// Builds the library in `directory`; returns its path, for `LD_PRELOAD`.
pub fn build(directory: &Path) -> PathBuf {
    let library = directory.join("resolver.so");
    preload::build(SOURCE, &library);
    library
}
