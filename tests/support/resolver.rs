//! A resolver that hangs, as the system's does where its name servers do not answer.

use std::path::{Path, PathBuf};

use super::preload;

const SOURCE: &str = include_str!("resolver.c");

/// A name that is looked up for ever by programs with the library.
pub const HANGS: &str = "hangs.invalid";

/// Builds the library in `directory`: its path, for `LD_PRELOAD`.
pub fn build(directory: &Path) -> PathBuf {
    let library = directory.join("resolver.so");
    preload::build(SOURCE, &library);
    library
}
