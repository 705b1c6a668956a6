//! `leasehold run`: a command under a lock.
//!
//! Three processes share the work, so that no failure of one leaves a command without its lock:
//!
//! - the *front* is what the caller started and waits for. It is in the caller's job, passes signals
//!   on, and ends as the command did.
//! - the *keeper*, its child, acquires the lease and renews it. It is in a session of its own: what stops a job at a
//!   terminal does not stop it, and a job that is stopped keeps its lock, as with flock(1).
//! - the *command* is the keeper's child, but in the caller's job, with its terminal: its process starts before the
//!   keeper leaves that job, and waits for the lock.
//!
//! If the keeper ends or hangs, the front ends the command and all that it started; if the front ends, the keeper does
//! so. Both adopt processes that the command leaves. If both end at once, the command ends by the signal that Linux
//! sends at its parent's death.

mod channel;
pub mod command;
pub mod keeper;
mod taking;
mod ticket;
mod tree;
mod watch;

use std::io::{self, stdin};
use std::time::Duration;

use channel::{Channel, ToFront, ToKeeper, start_ourselves};
use tokio::time::sleep;
use tree::Tree;
use watch::{Due, Watch};

use crate::args::Run;
use crate::exit::{End, Failure};
use crate::signals::{Caught, Signals};
use crate::times::now;

/// Maximum time between two looks at the clock, which may count a suspension of which timers know nothing.
const LOOK: Duration = Duration::from_secs(1);

/// The front's part: returns when the command has ended.
pub async fn run(run: &Run) -> Result<End, Failure> {
    let signals = Signals::catch()?;
    let begun = Tree::adopt().and_then(|tree| {
        let (_, socket) = start_ourselves(keeper::NAME, stdin())?;
        Ok((tree, Channel::new(socket)?))
    });
    let (tree, keeper) = begun.map_err(Failure::ourselves)?;
    let front =
        Front { signals, tree, keeper, ttl: run.ttl, watch: None, end: None, is_hung_up: false };
    front.stand().await
}

struct Front {
    signals: Signals,
    tree: Tree,
    keeper: Channel,
    ttl: Duration,
    /// None until the lock is held.
    watch: Option<Watch>,
    /// How to end, once known.
    end: Option<End>,
    /// A signal came before the lock was acquired.
    is_hung_up: bool,
}

impl Front {
    async fn stand(mut self) -> Result<End, Failure> {
        loop {
            let next = self.watch.as_ref().map(|watch| watch.next().saturating_sub(now()));
            tokio::select! {
                biased;
                heard = self.keeper.hear() => match heard {
                    Some(line) => self.hear(&line),
                    None => break,
                },
                caught = self.signals.next() => {
                    // At a second signal the front stops waiting; the keeper ends by itself.
                    if self.end.is_some() {
                        break;
                    }
                    self.pass(caught);
                }
                () = sleep(next.unwrap_or(LOOK).min(LOOK)), if next.is_some() => {
                    match self.watch.as_mut().map_or(Due::Nothing, |watch| watch.due(now())) {
                        Due::Nothing => {}
                        Due::Ask => self.keeper.say(ToKeeper::Ask),
                        Due::End => {
                            self.tree.kill().await;
                            return Err(Failure::Unkept("does not answer"));
                        }
                    }
                }
            }
        }
        if let Some(end) = self.end {
            return Ok(end);
        }
        let left = self.watch.as_ref().map_or(Duration::ZERO, |watch| watch.left(now()));
        self.tree.end(left.min(keeper::GRACE_MAX)).await;
        Err(match self.watch {
            Some(_) => Failure::Unkept("has ended"),
            None => {
                let why = io::Error::other("the process that waits for it has ended");
                Failure::System("no lock was taken", why)
            }
        })
    }

    fn hear(&mut self, line: &str) {
        match ToFront::parse(line) {
            Some(ToFront::Held) if !self.is_hung_up => {
                self.watch = Some(Watch::begin(self.ttl, now()));
            }
            Some(ToFront::Left(left)) => {
                if let Some(watch) = &mut self.watch {
                    watch.answered(left, now());
                }
            }
            Some(ToFront::Ended(end)) if !self.is_hung_up => {
                self.watch = None;
                self.end = Some(end);
            }
            _ => {}
        }
    }

    fn pass(&mut self, Caught { signal, is_for_all }: Caught) {
        if self.watch.is_none() {
            self.is_hung_up = true;
            self.end = Some(End::Signal(signal as i32));
            self.keeper.hang_up();
        } else if !is_for_all {
            self.keeper.say(ToKeeper::Pass(signal as i32));
        }
    }
}
