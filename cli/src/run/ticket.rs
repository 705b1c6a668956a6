//! Tickets in files: from one run to the next.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use leasehold::{Guard, Locker, Ticket};
use nix::libc;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::args::Run;
use crate::exit::Failure;
use crate::times::now;
use crate::waits::Until;
use crate::words::complain;

/// Maximum bytes that are read of a file with a ticket.
const READ_MAX: u64 = 64 * 1024;
/// Between two looks at whether a pipe has a reader, or room.
const LOOK: Duration = Duration::from_millis(20);

/// How long a pipe may stay full, as its reader stands still.
const FULL_MAX: Duration = Duration::from_secs(5);

/// A file that a ticket is to be written to. It is opened before the lock is taken, so that what is wrong with
/// it is known in time; and until there is another ticket it keeps the one that it has, which may be good.
pub struct Out {
    file: File,
    path: PathBuf,
    within: Duration,
}

impl Out {
    /// A pipe is to have a reader by then.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn open(run: &Run, until: Until) -> Result<Option<Self>, Failure> {
        let Some(path) = run.ticket.clone() else { return Ok(None) };
        if !Ticket::GOOD_FOR.contains(&run.ticket_for) {
            return Err(Failure::Options("--ticket-for: a ticket is good for 10ms to 24h"));
        }
        let mut options = OpenOptions::new();
        // Nobody but its owner is to read it.
        options.write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(libc::O_NONBLOCK);
        loop {
            let is_over = until.left() == Some(Duration::ZERO);
            let is_unread =
                |error: &io::Error| error.raw_os_error() == Some(libc::ENXIO) && is_pipe(&path);
            match options.open(&path) {
                Ok(file) => return Ok(Some(Self { file, path, within: run.ticket_for })),
                Err(error) if !is_over && is_unread(&error) => sleep(LOOK).await,
                Err(error) => return Err(Failure::File(shown(&path), error)),
            }
        }
    }

    /// Gives the lock to a ticket, and writes that. Where it cannot be written, the lock is released: nobody else could
    /// have it for as long as the ticket is good.
    pub async fn write(mut self, locker: &Locker, guard: Guard) -> Result<(), Failure> {
        let ticket = guard.into_ticket(self.within).await?;
        let Err(error) = self.replace(&ticket).await else { return Ok(()) };
        let released = async { locker.adopt(&ticket).await?.release().await };
        if let Err(error) = released.await {
            complain(&format!("the lock may stay taken until its ticket ends: {error}"));
        }
        Err(Failure::File(shown(&self.path), error))
    }

    async fn replace(&mut self, ticket: &Ticket) -> io::Result<()> {
        // A pipe has nothing to be emptied of, and no disk.
        let is_file = self.file.metadata()?.is_file();
        if is_file {
            self.file.set_len(0)?;
        }
        // In one piece, as a pipe takes it.
        let text = format!("{ticket}\n");
        let (mut rest, until) = (text.as_bytes(), now() + FULL_MAX);
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && now() < until => {
                    sleep(LOOK).await;
                }
                Err(error) => return Err(error),
            }
        }
        if is_file { self.file.sync_all() } else { Ok(()) }
    }
}

/// The ticket in a file, which has to be of the lock with this key. A pipe may have no writer yet.
///
/// # Cancel safety
///
/// What a pipe brings later is taken for nothing, if this process ends.
pub async fn read(path: &Path, key: &[u8]) -> Result<Ticket, Failure> {
    let (told, read) = oneshot::channel();
    let from = path.to_owned();
    // Not the runtime's, which would wait for a writer though we are to end.
    thread::spawn(move || {
        let mut text = String::new();
        let read = File::open(from).and_then(|file| file.take(READ_MAX).read_to_string(&mut text));
        let _ = told.send(read.map(|_| text));
    });
    let text = read.await.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()));
    let text = text.map_err(|error| Failure::Unread(shown(path), error))?;
    let ticket: Ticket = text.trim().parse()?;
    if ticket.name() != key {
        return Err(Failure::Options("--adopt: the ticket is of another lock than NAME"));
    }
    Ok(ticket)
}

/// Of one that nobody reads yet.
fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
