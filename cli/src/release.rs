//! `leasehold release --force`: ends another client's lease.

use std::ffi::OsString;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::os::unix::ffi::OsStrExt;
use std::thread;

use leasehold::Locker;
use leasehold::inspect::{Broken, HolderView, LockState, LockView};
use serde_json::json;
use tokio::sync::oneshot;

use crate::exit::{CONFIGURATION, CONFLICT, End, Failure, UNAVAILABLE, USAGE};
use crate::json::escape;
use crate::look::{Look, complain_of};
use crate::output::say;
use crate::servers::Servers;
use crate::show;
use crate::signals::Signals;
use crate::watch::time;
use crate::words::{complain, host, plain, said, tell};

/// Ends another client's lease, after showing whose it is and asking.
///
/// Use it for a holder that is known to be dead or stuck. Others can acquire the lock at once. A
/// holder that still runs learns of the loss at its next renewal, and one that does not renew never
/// does. Until then the writes of both can mix, unless the resource refuses smaller fencing tokens.
///
/// leasehold ends only the lease that it showed: a client that acquires the lock meanwhile keeps it.
/// The fence counter stays, so that the next token is larger.
///
/// Exit code: 0 if the lease was ended, or nobody held the lock; 1 if the answer was no, or the lease
/// had ended before; 64 without --yes if there is no terminal; 69 if too few servers answered to end
/// it; 78 if the value under the name is no lease.
#[derive(Debug, clap::Args)]
pub struct Release {
    #[command(flatten)]
    look: Look,

    /// Required: confirms that the lease is another client's
    #[arg(long, required = true)]
    force: bool,

    /// Print JSON: what was released, its holders, and the user that released it
    #[arg(long)]
    json: bool,

    /// Release without asking
    #[arg(short, long)]
    yes: bool,

    /// Delete the value under the name even if it has not the form of a Leasehold lease
    #[arg(long)]
    foreign: bool,

    /// Name of the lock
    name: OsString,
}

/// The decision before anything is released.
enum Decision {
    /// To end the leases that were shown.
    End(Locker, LockView),
    /// To release nothing, with this exit code.
    Leave(u8),
}

impl Release {
    pub async fn perform(self, servers: &Servers) -> Result<End, Failure> {
        let mut signals = Signals::catch()?;
        let decided = tokio::select! {
            biased;
            caught = signals.next() => {
                tell("\n".to_owned());
                complain("interrupted: nothing was released");
                return Ok(caught.signal.into());
            }
            decided = self.decide(servers) => decided?,
        };
        match decided {
            // From here on no signal interrupts it: it takes at most the servers' timeouts.
            Decision::End(locker, view) => self.end(&locker, &view).await.map(End::Code),
            Decision::Leave(code) => Ok(End::Code(code)),
        }
    }

    async fn decide(&self, servers: &Servers) -> Result<Decision, Failure> {
        let locker = self.look.connect(servers).await?;
        let view = locker.inspect(self.name.as_bytes()).await?;
        if view.holders.is_empty() {
            if self.json {
                say(&in_json(&view, &[]))?;
            } else {
                say(&show::whole(&view).join("\n"))?;
                say("nothing was released")?;
            }
            let is_unknown = view.state == LockState::Unknown;
            return Ok(Decision::Leave(if is_unknown { UNAVAILABLE } else { 0 }));
        }
        if !self.foreign && !view.holders.iter().all(HolderView::is_lease) {
            complain_of_all(&view);
            complain(
                "nothing was released: the value has not the form of a Leasehold lease (see --foreign)",
            );
            return Ok(Decision::Leave(CONFIGURATION));
        }
        if self.yes {
            return Ok(Decision::End(locker, view));
        }
        complain_of_all(&view);
        if !stdin().is_terminal() {
            complain("nothing was released: without a terminal, --yes is required");
            return Ok(Decision::Leave(USAGE));
        }
        if !is_meant().await? {
            complain("nothing was released");
            return Ok(Decision::Leave(CONFLICT));
        }
        Ok(Decision::End(locker, view))
    }
}

/// Prints whose leases the view shows.
fn complain_of_all(view: &LockView) {
    tell(format!("{}\n", show::whole(view).join("\n")));
}

impl Release {
    /// Ends the leases that were shown, and prints the outcome.
    async fn end(&self, locker: &Locker, view: &LockView) -> Result<u8, Failure> {
        let broken = locker.break_lease(view).await?;
        let Broken { freed, failures, .. } = &broken;
        complain_of(failures);
        let name = plain(&view.name);
        if self.json {
            say(&in_json(view, freed))?;
        } else if !freed.is_empty() {
            let whose = view.holders.iter().map(|holder| {
                let label = holder.holder.label.as_deref();
                let label = label.map_or(String::new(), |label| format!(" ({label})"));
                plain(format!("{}{label}", holder.holder.owner).as_bytes())
            });
            let whose = whose.collect::<Vec<_>>().join(" and ");
            say(&format!(
                "{name}: released on {} by {} at {}; it was held by {whose}",
                freed.join(", "),
                by(),
                time()
            ))?;
        }
        if !broken.is_complete() {
            complain("too few servers answered: the lease may last until its TTL ends");
            return Ok(UNAVAILABLE);
        }
        if freed.is_empty() {
            complain(&format!("{name}: nothing was released, because that lease had ended before"));
            return Ok(CONFLICT);
        }
        Ok(0)
    }
}

async fn is_meant() -> Result<bool, Failure> {
    const WHAT_HAPPENS: &str = "
If you go on, this lease ends now, and others can acquire the lock at once.
The holder learns of it at its next renewal; a holder that does not renew never learns of it.
Until then the holder may write. Only a resource that checks fencing tokens refuses its writes.
End the lease? [y/N] ";
    said();
    let mut stderr = stderr();
    let asked = stderr.write_all(WHAT_HAPPENS.as_bytes()).and_then(|()| stderr.flush());
    asked.map_err(|error| Failure::System("cannot ask at the terminal", error))?;
    let (told, answer) = oneshot::channel();
    // On a thread of its own: the runtime would wait for the answer even after a signal.
    thread::spawn(move || {
        let mut line = String::new();
        let _ = told.send(stdin().read_line(&mut line).map(|_| line));
    });
    let answer = answer.await.unwrap_or_else(|_| Ok(String::new()));
    let answer = answer.map_err(|error| Failure::System("cannot read the answer", error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes" | "YES"))
}

/// The user and host of this process.
fn by() -> String {
    let user = nix::unistd::geteuid();
    let name = nix::unistd::User::from_uid(user).ok().flatten().map(|user| user.name);
    let name = name.unwrap_or_else(|| user.to_string());
    format!("{name}@{}", host())
}

/// The leases that were ended, and where, for programs.
fn in_json(view: &LockView, freed: &[String]) -> String {
    let holders = view
        .holders
        .iter()
        .map(|holder| json!({ "owner": holder.holder.owner, "label": holder.holder.label }));
    let name = String::from_utf8_lossy(&view.name);
    escape(
        &json!({
            "name": name,
            "released": !freed.is_empty(),
            "servers": freed,
            "holders": holders.collect::<Vec<_>>(),
            "by": by(),
            "at": time(),
        })
        .to_string(),
    )
}
