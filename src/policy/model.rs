//! Two exhaustive models of Redlock: every behaviour within small bounds, on the policy's own code.
//!
//! *Exclusion* ([`lease`], on the [`world`]): two clients, one lock, N servers, time in ticks.
//! *Fencing* ([`fence`]): attempts and tokens alone, without time. Both are searched breadth first
//! ([`explore`]), so that a breach comes with a shortest way to it. Real here are `Attempt`,
//! `LeaseState`, `Ballot` and `quarantine`, with `Quorum` and `Term` in them: they say what is granted,
//! held, extended and issued. The scripts are copied by hand ([`redis`]).
//!
//! # The adversary
//!
//! It decides what happens next: time passes, a client acts or pauses, a message arrives, a server
//! fails. In words of the safety rules:
//!
//! - Messages of a lease arrive at a server in the order in which they were sent, as late as it
//!   likes, or never. When a connection ends, those on it become strays: they may still arrive, in
//!   any order, and their replies are never read.
//! - A reply is read at any time after its message arrived, or never: a client may act on a quorum
//!   from the moment at which q servers have granted, and may give up at any moment.
//! - A lock expires at its TTL give or take the drift. Up to `losses` servers may expire it early
//!   at any time, or have their wall clock stepped forward, which also ends their quarantine.
//! - A client that holds may hand over: its next attempt asks at once, and a server grants that
//!   also where the lock is the predecessor's. The predecessor holds no more from then on. If the
//!   successor ends, both are released, everywhere.
//! - A restart without memory ends the connections and begins a quarantine, any number of times.
//!   The client is told the largest uptime that INFO may round to. A restart with memory is the
//!   end of connections.
//!
//! # What must hold
//!
//! - P1: two clients never hold at once (`now < deadline`, and not lost), and no lease goes on
//!   after another was granted meanwhile: if at most k = 2q - N - 1 servers forget. Restarts that
//!   the guard covers do not count; early expiry and stepped clocks do. Nor does a client hold
//!   what it handed over beside what took it over.
//! - P2: a token proposed after another was issued is larger, and none is issued twice. "Issued" is
//!   the moment of the q-th acceptance. This needs no clock, no exclusion and no TTL. (Of two
//!   attempts that overlap, the one that is issued later may have the smaller token: of these two,
//!   only one can be held validly, by P1.) A successor's token is one like any other. A repair of
//!   an issued token raises a counter to it, or leaves the counter. That it refuses where the
//!   counter is above the token is prudence: another owner was accepted there, and would be kept
//!   out. What P2 needs of it is only that it lowers no counter and is no acceptance; exclusion is
//!   searched with repairs that look at no counter.
//! - P2 with lost counters: two quorums share 2q - N = k + 1 servers, so one of them remembers
//!   while at most k lose their counter between the first acceptance of the one token and the last
//!   of the other. Over a longer time it is enough that this is so from link to link of a chain of
//!   tokens, each proposed after the one before it was issued. One more, and wall clocks decide:
//!   equal clocks then issue one token twice (a test shows how). The restart quarantine helps
//!   here too: a counter that is lost in a restart votes again only after the longest TTL, so a
//!   later proposal is larger if no two wall clocks differ by that much and the server's counter
//!   was not driven ahead of them. That last sentence is argued, not explored.
//! - P3: no release deletes and no extension prolongs a lock that another attempt set; a lock is
//!   never held for longer than its TTL after the last message that set it.
//!
//! With a rule switched off (`Mutant`, `Rule`, `Weakness`) the search has to find a breach.
//!
//! # Hand-over by queue and push
//!
//! [`queue`] searches what processes do that wait in a queue at one server, which hands the lock to the
//! first of them by a push. Real there are `Term` and `WaiterState`. The adversary loses commands, replies
//! and pushes, ends subscriptions, lets commands of an ended connection arrive at any later time, crashes
//! processes, has waiters leave, has a client of another library take the lock, loses the counter, expires
//! keys as early as the drift allows, and restarts the server without memory under the guard. What must
//! hold:
//!
//! - A process that holds has the key, and no other process holds. (After a restart without memory a
//!   holder may lack the key; the guard keeps the rest.)
//! - Each token is above all tokens that a holder had before.
//! - No waiter is overtaken in the queue, unless it lost its entry by a late command or a lost subscription.
//! - Once nothing fails any more, one of the waiters has the lock within six TTLs.
//!
//! A process that holds may hand on to another of its owners, however many wait. Not covered there: the bound on
//! entries that one release passes over, how often a relay goes on, a Cluster, a failover.
//!
//! # Turns
//!
//! [`turn`] searches how waiters in the queue of one of several servers, the leader, ask all of them. The leader keeps its
//! lock for an owner of the process whose turn it is, and another owner of that process, which names it, asks
//! all. Real is `Quorum`. There is no time in it: a key may expire at any moment, unless its process holds by
//! it. The adversary delays messages, loses them, has a server answer nothing, expires keys, crashes processes,
//! has some ask without a turn, and has up to k servers forget. What must hold:
//!
//! - No two processes hold.
//! - The leader's lock goes from a turn only to another owner of the same process, unless it is released.
//! - Once nothing fails any more, and no key of a living process expires, a waiter has the lock
//!   within six rounds: so a turn is released, and the leader's vote counts.
//!
//! # Registers
//!
//! [`register`] searches values that several servers agree on: the result of a request, which is written once,
//! and the last slot of a job, which rises. There is no time in it and no lease. Real is `Reading`; the two
//! scripts are copied by hand. The adversary has each attempt propose any token, also the same as another's,
//! has it act on any q of the promises made to it, and end at any step; it delivers any message at any later
//! time or never; and it makes servers forget everything. What must hold while at most k servers forget:
//!
//! - All callers learn the same result, and it is the work of an attempt.
//! - No attempt begins its work under a larger token than the one under which a result was decided.
//! - A slot is claimed once, and no slot is claimed by an attempt that began after a later one was claimed.
//!
//! # Shares
//!
//! [`sharing`] searches readers and writers over several servers. There is no time in it. Real is `Attempt`, with the
//! quorum and the choice of a reader's token. The adversary orders all votes, has clients end at any step and propose
//! any tokens, and has up to k servers forget. What must hold:
//!
//! - A writer holds alone.
//! - A reader's token is not below that of any writer before it, and each writer's is above all before it.
//!
//! # Steps
//!
//! [`steps`] searches a lock at one server that some take by a script, and others step by step. There is no time in it, and
//! clocks show anything. The adversary delays each command, gives attempts up at any step, delivers their releases
//! before their commands or after them, and deletes the lock. What must hold:
//!
//! - No two attempts hold.
//! - Each token is above all that were issued before its attempt began, and tokens follow the order in which the lock
//!   was taken.
//!
//! # Grace
//!
//! [`grace`] searches a primary with one replica that is late, and is promoted. Real is `Reign`. The adversary copies,
//! promotes and restarts whenever it likes, loses the marker, and has commands arrive late, also at a server that was a
//! replica meanwhile. What must hold:
//!
//! - No two clients hold, also where clocks of servers are apart.
//! - A token that is requested after another was issued is larger, where clocks of servers agree.
//! - A holder that reaches the primary within its lease keeps the lease, unless a late grant of the reign
//!   before comes first.
//! - No client finds a primary closed for longer than the grace.
//!
//! # Bounds
//!
//! Two clients with one to three attempts each and up to two extensions; a TTL of 2, 3 or 5 ticks;
//! N of 1 to 5. Time is kept as ages, which stop at the TTL, so that a run may be of any length.
//! In fencing: up to four attempts, tokens of 1 to 4 proposed in any order, up to two proposals of
//! one attempt. In registers: up to three attempts, tokens of 1 to 4. `losses` counts servers over a whole run, not within one lease.
//!
//! # What makes it small
//!
//! - Servers are interchangeable, so states are sorted by server.
//! - A refusal is as good as a message that never arrives. Replies are not messages of their own:
//!   what counts is how many servers have granted.
//! - Unless `strays` is set: a refused message stays under way, connections do not end, and what
//!   an ended attempt has sent never arrives, but for the release of what it holds and, where it
//!   handed over, what may come before the successor's acquire. A late grant to a dead owner only
//!   keeps others out, so with the rules on nothing is lost by that; the runs with `strays` leave
//!   none of it out, and the mutants that need it have it.
//! - The attempts of a client have a connection each, also those that hand over: on one, as they
//!   are, less can happen.
//! - In fencing a lock is free whenever that helps, so locks are no part of the state: there a
//!   hand-over is an acquire like any other.
//!
//! # Not covered
//!
//! The retry policy, and how often a lock is handed over; TTLs that differ between
//! clients, and a longest TTL that is configured too small; clocks that run apart by more than the
//! drift; memory that comes back older than it was (a restored snapshot), but for what a loss of it
//! shows; replicas and failover, but for the grace; Cluster; the counters' idle expiry; tokens beyond 2^53; a user's
//! force-release.

mod apart;
mod arrive;
mod attempt;
mod explore;
mod fence;
mod grace;
mod lease;
mod queue;
mod redis;
mod register;
mod rules;
mod sharing;
mod steps;
mod tests;
mod tokens;
mod turn;
mod world;
