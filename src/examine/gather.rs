//! Reads one server's facts. The first command without a reply in time is the last; earlier replies are kept.

use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::facts::{ClockReading, Facts, Fields, Reading, time};
use super::failover::NODE_TIMEOUT;
use super::reign;
use super::scratch::{Scratch, are_channels_denied, hearing};
use crate::clock;
use crate::driver::interview::Interview;
use crate::names::Key;
use crate::net::fault::Fault;
use crate::net::refusal::{Code, ServerError};

/// Number of round trips to measure: their median withstands two disturbed ones.
const ROUND_TRIPS: usize = 5;
/// Number of scratch names to try: a node with a hundredth of the slots serves one of them in 169 of 170 cases.
const SCRATCHES: usize = 512;
/// Settings for `CONFIG GET`, one by one, as servers before Redis 7 take no list. The last is for a Cluster.
const SETTINGS: [&str; 4] = ["appendfsync", "no-appendfsync-on-rewrite", "save", NODE_TIMEOUT];

/// What to ask, and how.
pub(super) struct Questions<'a> {
    pub(super) scratch: &'a Scratch,
    pub(super) markers: &'a [Key],
    pub(super) in_cluster: bool,
    /// The timeout for the replies to one write.
    pub(super) within: Duration,
}

/// # Cancel safety
///
/// Values written to the scratch keys expire.
pub(super) async fn gather(interview: &mut Interview, questions: &Questions<'_>) -> Facts {
    let mut facts = Facts { is_resp3: interview.is_resp3(), ..Facts::default() };
    facts.broken_off = questions.ask_all(interview, &mut facts).await.err();
    facts
}

/// The run id of the server on a connection, if it reports one.
pub(super) async fn run_id(interview: &mut Interview, questions: &Questions<'_>) -> Option<String> {
    let reply = questions.ask(interview, &[b"INFO", b"server"]).await.ok()?;
    Some(info(&reply).ok()?.known()?.get("run_id")?.to_owned())
}

/// Why no more commands are sent.
type Stopped = String;

impl Questions<'_> {
    async fn ask_all(&self, interview: &mut Interview, facts: &mut Facts) -> Result<(), Stopped> {
        // Any reply is a round trip, also an error. HELLO needs no right.
        let probe: &[&[u8]] = if facts.is_resp3 { &[b"HELLO", b"3"] } else { &[b"PING"] };
        for _ in 0..ROUND_TRIPS {
            let asked_at = clock::now();
            let reply = self.ask(interview, probe).await?;
            facts.round_trips.push(clock::now().since(asked_at));
            facts.hello = Fields::of_pairs(&reply);
        }
        self.ask_what_it_is(interview, facts).await?;
        facts.clock = self.ask_the_time(interview).await?;
        // A replica refuses writes, or keeps them for itself.
        if facts.role().is_none_or(|role| role == "master") {
            let own = self.scratch_of(interview).await?;
            let trials = own.as_ref().unwrap_or(self.scratch).trials(self.in_cluster);
            let commands: Vec<&[&[u8]]> = trials.iter().map(|trial| &trial.words[..]).collect();
            let replies = self.ask_together(interview, &commands).await?;
            facts.trials =
                trials.iter().zip(&replies).map(|(trial, reply)| trial.judge(reply)).collect();
            let asked = reign::questions(self.markers);
            if !asked.is_empty() {
                let commands: Vec<&[&[u8]]> = asked.iter().map(|words| &words[..]).collect();
                facts.signs = reign::signs(&self.ask_together(interview, &commands).await?);
            }
            // Last, because a refusal ends the connection.
            if facts.is_resp3 && !are_channels_denied(&facts.trials) {
                facts.trials.push(hearing(self.refusal_to_hear(interview).await?.as_ref()));
            }
        }
        Ok(())
    }

    /// A scratch lock whose keys this node serves; none without a Cluster, or if the node serves none of those tried.
    async fn scratch_of(&self, interview: &mut Interview) -> Result<Option<Scratch>, Stopped> {
        let count = if self.in_cluster { SCRATCHES } else { 0 };
        let mut scratches = self.scratch.others(count);
        let probes: Vec<_> = scratches.iter().map(Scratch::probe).collect();
        let commands: Vec<&[&[u8]]> = probes.iter().map(|words| &words[..]).collect();
        let replies = self.ask_together(interview, &commands).await?;
        let is_elsewhere = |text: &Bytes| ServerError::new(text).code() == Code::Elsewhere;
        let is_here = |reply: &Frame| !reply.error().is_some_and(is_elsewhere);
        Ok(replies.iter().position(is_here).map(|at| scratches.swap_remove(at)))
    }

    async fn refusal_to_hear(
        &self,
        interview: &mut Interview,
    ) -> Result<Option<ServerError>, Stopped> {
        let channel = format!("leasehold:{:032x}", u128::from_ne_bytes(clock::random_id()));
        match interview.subscribe(channel.as_bytes(), self.within).await {
            Ok(refused) => Ok(refused),
            Err(Fault::Timeout(_) | Fault::TooFar { .. }) => {
                Err("the server did not carry out SUBSCRIBE in time".to_owned())
            }
            Err(failure) => Err(failure.to_string()),
        }
    }

    async fn ask_what_it_is(
        &self,
        interview: &mut Interview,
        facts: &mut Facts,
    ) -> Result<(), Stopped> {
        const SECTIONS: [&[u8]; 4] = [b"server", b"memory", b"persistence", b"replication"];
        let sections = SECTIONS.map(|section| [&b"INFO"[..], section]);
        let asked = &SETTINGS[..if self.in_cluster { SETTINGS.len() } else { SETTINGS.len() - 1 }];
        let settings: Vec<_> =
            asked.iter().map(|setting| [&b"CONFIG"[..], b"GET", setting.as_bytes()]).collect();
        let commands: Vec<&[&[u8]]> = sections
            .iter()
            .map(|words| &words[..])
            .chain(settings.iter().map(|w| &w[..]))
            .collect();
        let replies = self.ask_together(interview, &commands).await?;
        if let [server, memory, persistence, replication, settings @ ..] = &replies[..] {
            (facts.server, facts.memory) = (info(server)?, info(memory)?);
            (facts.persistence, facts.replication) = (info(persistence)?, info(replication)?);
            facts.settings = settings.iter().fold(Reading::Known(Fields::default()), add_setting);
        }
        Ok(())
    }

    async fn ask_the_time(
        &self,
        interview: &mut Interview,
    ) -> Result<Reading<ClockReading>, Stopped> {
        let before = clock::wall_micros();
        let reply = self.ask(interview, &[b"TIME"]).await?;
        let after = clock::wall_micros();
        if let Some(text) = reply.error() {
            return Ok(Reading::Refused(ServerError::new(text)));
        }
        Ok(time(&reply).map_or(Reading::Unasked, |theirs| {
            let within = after.saturating_sub(before) / 2;
            let ours = i64::try_from(before.saturating_add(within)).unwrap_or(i64::MAX);
            Reading::Known(ClockReading {
                ahead_micros: theirs.saturating_sub(ours),
                within: Duration::from_micros(within),
            })
        }))
    }

    async fn ask(&self, interview: &mut Interview, command: &[&[u8]]) -> Result<Frame, Stopped> {
        let reply = self.ask_together(interview, &[command]).await?.pop();
        reply.ok_or_else(|| Fault::Unexpected.to_string())
    }

    /// Sends all in one write, and waits for the replies until the timeout.
    async fn ask_together(
        &self,
        interview: &mut Interview,
        commands: &[&[&[u8]]],
    ) -> Result<Vec<Frame>, Stopped> {
        let replies = interview.ask(commands, self.within).await;
        replies.map_err(|failure| failure.to_string())
    }
}

fn info(reply: &Frame) -> Result<Reading<Fields>, Stopped> {
    match (reply.error(), reply.as_bytes()) {
        (Some(text), _) => Ok(Reading::Refused(ServerError::new(text))),
        (None, Some(text)) => Ok(Reading::Known(Fields::of_info(text))),
        (None, None) => Err("INFO was answered with something that is not its reply".to_owned()),
    }
}

/// Adds a setting; keeps the first refusal.
fn add_setting(all: Reading<Fields>, reply: &Frame) -> Reading<Fields> {
    match (all, reply.error()) {
        (Reading::Known(mut fields), None) => {
            fields.extend(Fields::of_pairs(reply));
            Reading::Known(fields)
        }
        (Reading::Known(_), Some(text)) => Reading::Refused(ServerError::new(text)),
        (all, _) => all,
    }
}

#[cfg(test)]
mod tests;
