//! `leasehold release --force`: the end of a lease that is not ours.

use std::ffi::OsString;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::os::unix::ffi::OsStrExt;
use std::thread;

use leasehold::{Broken, HolderView, LockState, LockView, Locker};
use tokio::sync::oneshot;

use crate::exit::{CONFIGURATION, CONFLICT, End, Failure, UNAVAILABLE, USAGE};
use crate::look::{Look, complain_of};
use crate::output::say;
use crate::servers::Servers;
use crate::show;
use crate::signals::Signals;
use crate::words::{complain, plain};

/// Ends somebody else's lease, after it has shown whose and asked.
///
/// This is for a holder that is known to be dead or stuck. Others can take the lock at once, and
/// the holder, if it lives, may still be at work: it learns that it has lost its lease at its next
/// renewal (it tries that well before the lease's end), and one that does not renew never does.
/// Writes of both can mix then, unless what they write to refuses smaller fencing tokens.
///
/// What was shown is ended and nothing else: whoever takes the lock in the meantime keeps it. The
/// fence counter stays, so that the next token is larger.
///
/// The exit code is 0 once the lease is ended, or where nobody held the lock; 1 where it was not
/// confirmed, or had ended before; 64 where there is nobody to ask and no --yes; 69 where too few
/// servers could be reached to end it; 78 where what is under the name is no lease.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Release {
    #[command(flatten)]
    look: Look,

    /// Say that you mean it: there is no release of another's lease without it
    #[arg(long, required = true)]
    force: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Delete what is under the name even where it is no lease of Leasehold's, by its form
    #[arg(long)]
    foreign: bool,

    /// The lock
    name: OsString,
}

/// What becomes of it before anything is released.
enum Decision {
    /// What was shown is to be ended.
    End(Locker, LockView),
    /// Nothing is to be released, and this is the exit code.
    Leave(u8),
}

impl Release {
    pub async fn perform(self, servers: &Servers) -> Result<End, Failure> {
        let mut signals = Signals::catch()?;
        let decided = tokio::select! {
            biased;
            caught = signals.next() => {
                let _ = writeln!(stderr());
                complain("interrupted: nothing was released");
                return Ok(caught.signal.into());
            }
            decided = self.decide(servers) => decided?,
        };
        match decided {
            // From here on it is not left half done: it takes no longer than servers are waited for.
            Decision::End(locker, view) => end(&locker, &view).await.map(End::Code),
            Decision::Leave(code) => Ok(End::Code(code)),
        }
    }

    async fn decide(&self, servers: &Servers) -> Result<Decision, Failure> {
        let locker = self.look.connect(servers).await?;
        let view = locker.inspect(self.name.as_bytes()).await?;
        if view.holders.is_empty() {
            say(&show::whole(&view).join("\n"))?;
            let is_unknown = view.state == LockState::Unknown;
            return Ok(Decision::Leave(if is_unknown { UNAVAILABLE } else { 0 }));
        }
        if !self.foreign && !view.holders.iter().all(HolderView::is_lease) {
            complain_of_all(&view);
            complain("nothing was released: that is no lease of Leasehold's (see --foreign)");
            return Ok(Decision::Leave(CONFIGURATION));
        }
        if self.yes {
            return Ok(Decision::End(locker, view));
        }
        complain_of_all(&view);
        if !stdin().is_terminal() {
            complain("nothing was released: there is no terminal to ask at, and no --yes");
            return Ok(Decision::Leave(USAGE));
        }
        if !is_meant().await? {
            complain("nothing was released");
            return Ok(Decision::Leave(CONFLICT));
        }
        Ok(Decision::End(locker, view))
    }
}

/// Shows whose lease it is about.
fn complain_of_all(view: &LockView) {
    // Where nobody reads it, there is nobody to tell.
    let _ = writeln!(stderr(), "{}", show::whole(view).join("\n"));
}

async fn is_meant() -> Result<bool, Failure> {
    const WHAT_HAPPENS: &str = "
If you go on, this lease ends now, and others can take the lock at once.
The holder learns of it at its next renewal; if it does not renew, it does not learn of it.
It may still be writing. Its fencing token keeps it out only of what checks tokens.
End the lease? [y/N] ";
    let mut stderr = stderr();
    let asked = stderr.write_all(WHAT_HAPPENS.as_bytes()).and_then(|()| stderr.flush());
    asked.map_err(|error| Failure::System("nobody can be asked", error))?;
    let (told, answer) = oneshot::channel();
    // Not the runtime's: it would wait for the answer though a signal has ended us.
    thread::spawn(move || {
        let mut line = String::new();
        let _ = told.send(stdin().read_line(&mut line).map(|_| line));
    });
    let answer = answer.await.unwrap_or_else(|_| Ok(String::new()));
    let answer = answer.map_err(|error| Failure::System("the answer cannot be read", error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes" | "YES"))
}

/// Ends the leases that were shown, and says what became of them.
async fn end(locker: &Locker, view: &LockView) -> Result<u8, Failure> {
    let broken = locker.break_lease(view).await?;
    let Broken { freed, failures, .. } = &broken;
    complain_of(failures);
    let name = plain(&view.name);
    if !freed.is_empty() {
        let whose = view.holders.iter().map(|holder| {
            let label =
                holder.holder.label.as_deref().map_or(String::new(), |label| format!(" ({label})"));
            plain(format!("{}{label}", holder.holder.owner).as_bytes())
        });
        let whose = whose.collect::<Vec<_>>().join(" and ");
        say(&format!("{name}: released on {}; it was held by {whose}", freed.join(", ")))?;
    }
    if !broken.is_complete() {
        complain("too few servers could be reached: the lease may go on to its end");
        return Ok(UNAVAILABLE);
    }
    if freed.is_empty() {
        complain(&format!("{name}: that lease had ended before; nothing was released"));
        return Ok(CONFLICT);
    }
    Ok(0)
}
