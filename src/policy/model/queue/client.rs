//! The processes: what each may do next, and what messages to it lead to.

use super::super::super::waiter::{Shown, WaiterState};
use super::super::super::{QueueAnswer, WaiterAction, WaiterEvent};
use super::keys::{FOREIGN, Owner, PROCESSES};
use super::server::{AGAIN, ASKS, EXTENDED, GONE, REFUSED, WAITING, WAITING_FIRST, YOURS};
use super::world::{
    Ask, Breach, Deed, Event, Mail, Mails, Phase, Process, Queues, Weakness, World,
};

/// A token that no server minted.
const FORGED: u8 = u8::MAX;
/// Tokens of this model count from here.
const CLOCK: u64 = 1_763_800_000_000_000;

fn micros(token: u8) -> u64 {
    if token == FORGED { (1 << 53) - 1 } else { CLOCK + u64::from(token) }
}

/// Adds a step: what happens, and its changes.
type Add<'a> = dyn FnMut(Deed, &dyn Fn(&mut World)) + 'a;

impl Queues {
    /// Events that concern no single process.
    pub(super) fn of_world(&self, world: &World, found: &mut Vec<(Event, World)>) {
        let mut add = |event: Event, change: &dyn Fn(&mut World)| {
            let mut next = *world;
            change(&mut next);
            found.push((event, next));
        };
        let (server, faults) = (&world.server, &world.faults);
        add(Event::Tick, &|next| self.tick(next));
        if server.owner != 0 && server.owner != FOREIGN && server.left <= self.drift {
            add(Event::Expires, &|next| next.server.free());
        }
        if server.owner == 0 && faults.foreign > 0 {
            add(Event::ForeignTakes, &|next| {
                next.faults.foreign -= 1;
                next.server.owner = FOREIGN;
            });
        }
        if server.owner == FOREIGN {
            add(Event::ForeignReleases, &|next| next.server.free());
        }
        if faults.counters > 0 {
            add(Event::CounterLost, &|next| {
                next.faults.counters -= 1;
                next.server.counter = 0;
            });
        }
        if faults.dead > 0 {
            add(Event::DeadStandFirst, &|next| {
                next.server.dead += next.faults.dead;
                next.faults.dead = 0;
            });
        }
        if faults.restarts > 0 {
            add(Event::Restarts, &|next| self.restart(next));
        }
    }

    fn restart(&self, world: &mut World) {
        world.faults.restarts -= 1;
        let longest = *self.bounds.ttl.iter().max().expect("there are processes");
        let guarded = if self.is(Weakness::NoGuard) { 0 } else { longest };
        world.server.restart(guarded);
        for process in &mut world.processes {
            // The guard does not concern present holders: their keys are gone.
            process.is_keyless |= process.holds();
            process.is_subscribed = false;
            (process.questions, process.answers) = (Mails::default(), Mails::default());
            process.pushes = Mails::default();
            process.is_queued = false;
            process.behind = 0;
        }
    }

    pub(super) fn tick(&self, world: &mut World) {
        world.server.tick(!self.is(Weakness::EntriesNeverExpire));
        for (number, process) in world.processes.iter_mut().enumerate() {
            let older = |age: &mut u8| *age = (*age + 1).min(self.ttl(number));
            process.questions.each().for_each(|mail| older(&mut mail.age));
            process.answers.each().for_each(|mail| older(&mut mail.age));
            older(&mut process.asked);
            if let Phase::Waiting { since } | Phase::Holding { since } = &mut process.phase {
                older(since);
            }
        }
        for number in 0..self.bounds.processes {
            let phase = world.processes[number].phase;
            if matches!(phase, Phase::Holding { since } if self.is_over(number, since)) {
                self.ends(world, number);
            }
        }
    }

    /// What a process may do, and what may happen to it.
    pub(super) fn of_process(&self, world: &World, number: usize, found: &mut Vec<(Event, World)>) {
        let process = &world.processes[number];
        let mut add = |deed: Deed, change: &dyn Fn(&mut World)| {
            let mut next = *world;
            change(&mut next);
            found.push((Event::Of(number, deed), next));
        };
        self.of_messages(world, number, &mut add);
        let faults = &world.faults;
        let is_dead = process.phase == Phase::Dead;
        if process.is_subscribed && (is_dead || faults.drops > 0) {
            add(Deed::SubscriptionEnds, &|next| {
                next.faults.drops -= u8::from(!is_dead);
                let process = &mut next.processes[number];
                (process.is_subscribed, process.pushes) = (false, Mails::default());
            });
        }
        if is_dead {
            return;
        }
        if !process.is_subscribed {
            add(Deed::Subscribes, &|next| next.processes[number].is_subscribed = true);
        }
        if faults.crashes > 0 && (process.waits() || process.holds()) {
            add(Deed::Crashes, &|next| {
                next.faults.crashes -= 1;
                next.processes[number].phase = Phase::Dead;
                next.leaves_queue(number);
            });
        }
        let under_way = process.questions.len() + process.answers.len();
        match process.phase {
            // Which process comes first makes no difference.
            Phase::Idle if self.may_start(world, number) => {
                add(Deed::Starts, &|next| self.start(next, number));
            }
            Phase::Asking | Phase::Waiting { .. } => {
                if faults.cancels > 0 && !process.questions.is_full() {
                    add(Deed::Cancels, &|next| {
                        next.faults.cancels -= 1;
                        self.ends(next, number);
                    });
                }
                let (most, is_due) = match process.phase {
                    Phase::Waiting { since } => (self.bounds.questions, since >= self.bounds.rests),
                    _ => (0, true),
                };
                if under_way <= most && is_due {
                    add(Deed::Beats, &|next| self.ask(next, number, Ask::Beat));
                }
            }
            Phase::Holding { .. } if !process.questions.is_full() => {
                add(Deed::Releases, &|next| self.ends(next, number));
                if self.bounds.extensions && under_way == 0 {
                    add(Deed::Extends, &|next| self.ask(next, number, Ask::Extend));
                }
                if self.bounds.relays && process.attempts < self.bounds.attempts {
                    add(Deed::HandsOn, &|next| self.hand_over(next, number));
                }
            }
            Phase::TakingOver if under_way == 0 => {
                add(Deed::GivesUp, &|next| self.ends(next, number));
            }
            _ => {}
        }
    }

    fn of_messages(&self, world: &World, number: usize, add: &mut Add<'_>) {
        let (process, faults) = (&world.processes[number], &world.faults);
        if process.questions.len() > 0 {
            add(Deed::QuestionArrives, &|next| {
                let mail = next.processes[number].questions.pop();
                let answer = self.carry_out(next, number, mail);
                let process = &mut next.processes[number];
                if let Some(answer) = answer.filter(|_| process.phase != Phase::Dead) {
                    if !process.answers.is_full() {
                        process.answers.push(answer);
                    }
                }
            });
            if faults.losses > 0 {
                add(Deed::QuestionLost, &|next| {
                    next.faults.losses -= 1;
                    next.processes[number].questions.pop();
                });
            }
            if faults.strays > 0 && process.stray == Mail::default() {
                add(Deed::QuestionStrays, &|next| {
                    next.faults.strays -= 1;
                    next.processes[number].stray = next.processes[number].questions.pop();
                });
            }
        }
        if process.stray != Mail::default() {
            add(Deed::StrayArrives, &|next| {
                let mail = std::mem::take(&mut next.processes[number].stray);
                self.carry_out(next, number, mail);
            });
        }
        if process.phase == Phase::Dead {
            return;
        }
        if process.answers.len() > 0 {
            add(Deed::AnswerRead, &|next| {
                let mail = next.processes[number].answers.pop();
                self.read(next, number, mail);
            });
            if faults.losses > 0 {
                add(Deed::AnswerLost, &|next| {
                    next.faults.losses -= 1;
                    next.processes[number].answers.pop();
                });
            }
        }
        let is_seen = process.waits() && world.server.queues(process.owner);
        if faults.forgeries > 0 && is_seen && !process.pushes.is_full() {
            add(Deed::PushForged, &|next| {
                next.faults.forgeries -= 1;
                let process = &mut next.processes[number];
                let owner = process.owner;
                process.pushes.push(Mail { owner, token: FORGED, ..Mail::default() });
            });
        }
        if process.pushes.len() > 0 {
            add(Deed::PushRead, &|next| {
                let mail = next.processes[number].pushes.pop();
                self.hear(next, number, mail);
            });
            if faults.losses > 0 {
                add(Deed::PushLost, &|next| {
                    next.faults.losses -= 1;
                    next.processes[number].pushes.pop();
                });
            }
        }
    }

    fn may_start(&self, world: &World, number: usize) -> bool {
        let is_next = number == 0
            || world.processes[number - 1].attempts > 0
            || self.bounds.ttl[number] != self.bounds.ttl[number - 1];
        is_next && world.processes[number].attempts < self.bounds.attempts
    }

    /// An attempt, with an owner of its own.
    fn start(&self, world: &mut World, number: usize) {
        let process = &mut world.processes[number];
        let first = u8::try_from(number).expect("few") * self.bounds.attempts + 1;
        process.owner = first + process.attempts;
        process.attempts += 1;
        process.phase = Phase::Asking;
        let ask = if self.bounds.newcomers { Ask::Take } else { Ask::Enqueue };
        self.ask(world, number, ask);
    }

    pub(super) fn ask(&self, world: &mut World, number: usize, ask: Ask) {
        let process = &mut world.processes[number];
        if process.questions.is_full() {
            return;
        }
        let owner = process.owner;
        self.send(process, owner, ask);
    }

    fn send(&self, process: &mut Process, owner: Owner, ask: Ask) {
        let what = ASKS.iter().position(|known| *known == ask).expect("all are known");
        let what = u8::try_from(what).expect("few");
        process.questions.push(Mail { what, owner, age: 0, token: 0 });
        if matches!(ask, Ask::Beat) {
            process.asked = 0;
        }
    }

    /// Releases what the process has or waits for.
    pub(super) fn ends(&self, world: &mut World, number: usize) {
        let process = &mut world.processes[number];
        let owner = process.owner;
        let predecessor = process.succeeds.then_some(owner - 1);
        for owner in [owner].into_iter().chain(predecessor) {
            if !process.questions.is_full() {
                self.send(process, owner, Ask::Leave);
            }
        }
        let is_last = process.attempts >= self.bounds.attempts;
        process.phase = if is_last { Phase::Done } else { Phase::Idle };
        (process.owner, process.is_keyless, process.is_first) = (0, false, false);
        process.succeeds = false;
        world.leaves_queue(number);
    }

    pub(super) fn read(&self, world: &mut World, number: usize, mail: Mail) {
        let process = &mut world.processes[number];
        // The command is sent again at once, whatever it was.
        if mail.what >= AGAIN && !process.questions.is_full() {
            return self.send(process, mail.owner, ASKS[usize::from(mail.what - AGAIN)]);
        }
        if process.owner != mail.owner {
            return;
        }
        if let (EXTENDED, Phase::Holding { since }) = (mail.what, &mut process.phase) {
            *since = mail.age.min(*since);
        }
        if process.phase == Phase::TakingOver {
            return self.taken_over(world, number, mail);
        }
        if !process.waits() {
            return;
        }
        let answer = match mail.what {
            REFUSED => return self.ask(world, number, Ask::Enqueue),
            YOURS => QueueAnswer::Yours,
            WAITING | WAITING_FIRST => QueueAnswer::Waiting { shown: None },
            GONE => QueueAnswer::Gone,
            _ => return,
        };
        process.is_first = mail.what == WAITING_FIRST;
        self.happens(world, number, Some((answer, mail.age)), mail.token);
    }

    pub(super) fn hear(&self, world: &mut World, number: usize, mail: Mail) {
        let process = &mut world.processes[number];
        let is_wanted = process.owner == mail.owner || self.is(Weakness::PushWithoutOwner);
        if is_wanted && process.waits() {
            if self.is(Weakness::CountsFromThePush) {
                process.phase = Phase::Waiting { since: 0 };
            } else if self.is(Weakness::CountsFromAnUnansweredQuestion) {
                process.phase = Phase::Waiting { since: process.asked };
            }
            self.happens(world, number, None, mail.token);
        } else if process.owner != mail.owner && !process.questions.is_full() {
            self.send(process, mail.owner, Ask::Leave);
        }
    }

    /// Has the shipped machine judge: an answer with its age, or a push.
    fn happens(
        &self,
        world: &mut World,
        number: usize,
        answered: Option<(QueueAnswer, u8)>,
        token: u8,
    ) {
        let process = &mut world.processes[number];
        // All moments are at most a TTL ago.
        let now = self.moments(self.ttl(number)).1;
        let ago = |age: u8| self.moments(self.ttl(number) - age).1;
        let age =
            |moment| (0..=self.ttl(number)).find(|age| ago(*age) == moment).expect("it was a tick");
        let believed = if self.is(Weakness::AnyTokenIsPushed) { micros(token) } else { CLOCK };
        let shown = Some(Shown { counter: believed, clock: believed, asked_at: ago(0) });
        let mut state = match process.phase {
            Phase::Waiting { since } => WaiterState::Waiting { since: ago(since), shown },
            _ => WaiterState::Asking,
        };
        let event = match answered {
            Some((answer, age)) => WaiterEvent::Answered { answer, asked_at: ago(age) },
            None => WaiterEvent::Pushed { token: micros(token) },
        };
        let action = state.happens(event, self.terms[number], now);
        process.phase = match state {
            WaiterState::Asking => Phase::Asking,
            WaiterState::Waiting { since, .. } => Phase::Waiting { since: age(since) },
        };
        match action {
            WaiterAction::Wait => {}
            WaiterAction::Ask => self.ask(world, number, Ask::Beat),
            WaiterAction::ComeBack => {
                process.phase = Phase::Done;
                process.owner = 0;
                world.leaves_queue(number);
                if world.processes[number].attempts < self.bounds.attempts {
                    self.start(world, number);
                }
            }
            WaiterAction::Hold { counts_from } => {
                self.hold(world, number, age(counts_from), token);
            }
        }
    }

    pub(super) fn hold(&self, world: &mut World, number: usize, since: u8, token: u8) {
        world.processes[number].phase = Phase::Holding { since };
        if token <= world.issued {
            world.breach = Some(Breach::Token);
        }
        world.issued = world.issued.max(token);
    }

    /// Forgets what makes no difference any more.
    pub(super) fn without_the_needless(&self, mut world: World) -> World {
        world.note_lost_places(PROCESSES);
        for process in &mut world.processes {
            if !self.is(Weakness::CountsFromAnUnansweredQuestion) {
                process.asked = 0;
            }
            if process.phase == Phase::Dead {
                let Process { is_subscribed, questions, stray, attempts, .. } = *process;
                *process = Process {
                    phase: Phase::Dead,
                    is_subscribed,
                    questions,
                    stray,
                    attempts,
                    ..Process::default()
                };
            }
            // The age of a release does not matter.
            for mail in process.questions.each() {
                if matches!(ASKS[usize::from(mail.what)], Ask::Leave) {
                    mail.age = 0;
                }
            }
        }
        world
    }
}
