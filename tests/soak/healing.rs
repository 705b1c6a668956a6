//! How faults end, and what some of these ends bring about.

use super::{Injector, MARGIN, Target};
use crate::history::{At, Disturbance};
use crate::plan::{Kind, LONGEST_TTL};
use crate::trouble::{Cure, Trouble};
use leasehold_testing::Fault;

impl Injector {
    pub(super) fn heal_what_is_due(&mut self) {
        let now = self.now();
        let (due, rest) = std::mem::take(&mut self.troubles)
            .into_iter()
            .partition::<Vec<_>, _>(|trouble| trouble.ends <= now);
        self.troubles = rest;
        for trouble in due {
            self.heal(&trouble);
            let empties = self.plan.kinds.contains(&Kind::KillEmpty);
            if empties && trouble.cure != Cure::VotesAgain && self.prng.percent(40) {
                self.pass_the_baton(trouble.server);
            }
        }
    }

    /// The worst moment to lose a memory: a server that did not hear of the leases of the moment
    /// is back, and now one that granted them forgets them. Together with others the two could
    /// make a second quorum.
    fn pass_the_baton(&mut self, back: usize) {
        let server = self.prng.index(self.plan.servers);
        if server == back || !self.may_impair(server, None) {
            return;
        }
        let killed_at = self.now();
        self.fleet.servers[server].kill();
        self.fleet.forget(server);
        self.fleet.servers[server].restart();
        self.done("fault: emptied at once", Target { server, way: 0 }, false, "");
        self.restarted(server, killed_at, true);
    }

    pub(super) fn heal(&mut self, trouble: &Trouble) {
        let Trouble { server, way, cure, .. } = *trouble;
        let fleet = &mut self.fleet;
        match cure {
            Cure::Restart { killed_at, empty } => {
                fleet.servers[server].restart();
                self.restarted(server, killed_at, empty);
            }
            Cure::Continue => fleet.servers[server].cont(),
            Cure::VotesAgain => return,
            Cure::Pass | Cure::Reopen | Cure::Accept => {
                let proxy = &mut fleet.proxies[way.expect("a proxy is on a way")][server];
                if cure == Cure::Reopen {
                    // TCP loses nothing within a connection: the ones that lost bytes must end
                    // before any byte passes again.
                    self.runtime.block_on(async {
                        proxy.refuse().await;
                        proxy.reset();
                        proxy.until_open(0).await;
                    });
                }
                proxy.set_both(Fault::Pass);
                self.runtime.block_on(proxy.accept());
            }
        }
        let whose = way.map_or_else(String::new, |way| format!(" on way {way}"));
        self.stage.recorder.note(format!("healed: server {server}{whose}"));
    }

    fn restarted(&mut self, server: usize, killed_at: At, empty: bool) {
        let now = self.now();
        if empty {
            let disturbance = Disturbance { name: None, begun: killed_at, ended: now };
            let mut history = self.stage.recorder.history();
            history.disturbances.push(disturbance);
            history.forgetful.insert(server);
        }
        if self.plan.restart_quarantine {
            let ends = now + LONGEST_TTL + MARGIN;
            self.troubles.push(Trouble { server, way: None, ends, cure: Cure::VotesAgain });
        }
    }
}
