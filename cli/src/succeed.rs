//! Executes a command in place of this process.

use std::ffi::OsString;
use std::fs::metadata;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{env, io};

use nix::errno::Errno;

use crate::exit::Failure;
use crate::words::{plain, said};
use crate::{secret, signals};

/// Executes the command, with this added to its environment; without a command, succeeds.
pub fn succeed_as<const N: usize>(
    words: &[OsString],
    environment: [(&str, OsString); N],
) -> Result<u8, Failure> {
    let Some((program, arguments)) = words.split_first() else { return Ok(0) };
    let mut command = Command::new(program);
    command.args(arguments).envs(environment);
    secret::keep_from(&mut command);
    signals::let_all_through();
    said();
    Err(Failure::Command(plain(program.as_encoded_bytes()), command.exec()))
}

/// Checks whether the command can be run, as far as possible, before anything is acquired for it.
pub fn find(words: &[OsString]) -> Result<(), Failure> {
    let Some(program) = words.first() else { return Ok(()) };
    let failed = |error: io::Error| Failure::Command(plain(program.as_encoded_bytes()), error);
    if Path::new(program).components().count() > 1 {
        return is_program(Path::new(program)).map_err(failed);
    }
    // Without it the system has default directories.
    let Some(path) = env::var_os("PATH") else { return Ok(()) };
    let mut why = Errno::ENOENT.into();
    for directory in env::split_paths(&path) {
        match is_program(&directory.join(program)) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => why = error,
            Err(_) => {}
        }
    }
    Err(failed(why))
}

fn is_program(path: &Path) -> io::Result<()> {
    let metadata = metadata(path)?;
    let is_program = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    if is_program { Ok(()) } else { Err(Errno::EACCES.into()) }
}
