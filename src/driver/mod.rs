//! Carries bytes and time between the machine and tokio.
//!
//! The machine is behind one mutex with short sections. Inside, nothing is written, no task is woken and no code of a user
//! runs: the effects are carried out later. With few commands in flight each caller writes its own; with more, once a part
//! of them has gathered. What is left the task writes, which reads all links and has the one timer. Dials, and calls of a
//! provider of credentials, are tasks of their own. A dial drives its handshake itself, and then hands that over: only a
//! whole handshake shows which address of a name serves.

mod aside;
#[cfg(any(test, feature = "_calls"))]
mod call;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod dialling;
#[cfg(feature = "_interviews")]
pub(crate) mod interview;
#[cfg_attr(not(any(test, feature = "credentials")), path = "logins/off.rs")]
mod logins;
#[cfg(feature = "cluster")]
mod nodes;
pub(crate) mod opening;
pub(crate) mod report;
#[cfg(feature = "sentinel")]
pub(crate) mod sentinels;
pub(crate) mod servers;
#[cfg(feature = "sentinel")]
pub(crate) mod service;
mod telling;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod timekeeper;
mod wire;

use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use tokio::runtime::Handle;
use tokio::task::{unconstrained, yield_now};
use tokio::time::Sleep;

use self::aside::Aside;
pub(crate) use self::servers::Servers;
use self::wire::Writer;
use crate::box_future::Heaped;
use crate::clock;
use crate::machine::{Effect, Fault, Handshake, Machine};
use crate::net::fault::Fault as NetFault;
use crate::net::open_error::OpenError;
use crate::net::transport::ReadHalf;
use crate::policy::Moment;
use crate::spans::Holds;
use crate::stats::{AtServer, Meter};

/// A caller writes once the output has this many bytes for each command under way. Most have eight times that, or more: few
/// are written one by one, and with many the server works while other callers go on.
const WRITTEN_FROM: usize = 12;
/// One read of a socket; most replies are below 100 bytes.
const READ_BYTES: usize = 4096;
/// With less room than this a new buffer is allocated.
const READ_ROOM_BYTES: usize = 1024;
/// Reads of one link in one turn of the task: a server that floods its link leaves the others their turn.
const READS_MAX: usize = 8;
/// A timer that is this late shows a stall of the whole process.
pub(crate) const STALL: Duration = Duration::from_millis(10);

/// What handles and the task share.
pub(crate) struct Shared {
    state: Mutex<State>,
    servers: Arc<Servers>,
    meter: Arc<Meter>,
    holds: Holds,
    /// A caller may be on another runtime, or on none.
    runtime: Handle,
}

/// The result of a dial: the reading half, the bytes of a reply that is not whole yet, and the handshake.
type Dialled = Result<(ReadHalf, BytesMut, Heaped<Handshake>), Fault>;

struct State {
    machine: Machine,
    wires: Vec<Wire>,
    /// Dials that have ended.
    dialled: Vec<(usize, Dialled)>,
    /// The task runs: it reads, and has the timer.
    is_driven: bool,
    /// Of the servers that are left out of attempts.
    open_breakers: Vec<Option<AtServer>>,
    /// Links that the machine has closed, for their readers, and for their sockets to be shut down.
    closed: Vec<usize>,
    closing: Vec<Arc<Writer>>,
    task: Option<Waker>,
    /// The task has more to do than to read, and to look at the time.
    has_news: bool,
    /// The task was woken for that, and has not looked since.
    is_called: bool,
    /// When the task looks at the time next.
    planned: Moment,
    spare_effects: Vec<Effect>,
    /// The task that asks where servers are.
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    follower: Option<Aside>,
}

#[derive(Default)]
struct Wire {
    writer: Option<Arc<Writer>>,
    /// The task is to write.
    is_left: bool,
    /// Why there is no socket, or was none the last time.
    why: Option<OpenError>,
    /// There was a socket before.
    is_again: bool,
    /// Counts the connections that the machine has ended: a dial from before that is ignored.
    turn: u32,
    /// The last dial, or, once there is a socket, the last call for credentials: either may hang for long.
    aside: Option<Aside>,
}

impl Shared {
    /// A link may have to lead to another server.
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    fn look_again(&self) {
        #[cfg(feature = "cluster")]
        if let Some(nodes) = &self.servers.nodes {
            nodes.wanted.notify_one();
        }
        #[cfg(feature = "sentinel")]
        if let Some(service) = &self.servers.service {
            service.wanted.notify_one();
        }
    }

    #[inline(never)]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the machine, and carries out the effects.
    pub(crate) fn with<T>(self: &Arc<Self>, call: impl FnOnce(&mut Machine, Moment) -> T) -> T {
        self.with_from(WRITTEN_FROM, call)
    }

    fn with_from<T>(
        self: &Arc<Self>,
        from: usize,
        call: impl FnOnce(&mut Machine, Moment) -> T,
    ) -> T {
        let now = clock::now();
        let mut state = self.lock();
        let result = call(&mut state.machine, now);
        self.carry_out(state, now, from);
        result
    }

    /// Calls the machine, where the only effects can be a caller to be woken, or work for later.
    pub(crate) fn look<T>(self: &Arc<Self>, look: impl FnOnce(&mut Machine) -> T) -> T {
        let mut state = self.lock();
        let result = look(&mut state.machine);
        self.is_looked_at(state);
        result
    }

    #[inline(never)]
    fn is_looked_at(self: &Arc<Self>, state: MutexGuard<'_, State>) {
        if state.machine.has_effects() || state.machine.due() < state.planned {
            self.carry_out(state, clock::now(), WRITTEN_FROM);
        }
    }

    /// Unlocks the mutex, then writes the output of all links, and wakes.
    fn carry_out(self: &Arc<Self>, mut state: MutexGuard<'_, State>, now: Moment, from: usize) {
        #[cfg(feature = "cluster")]
        state.grow();
        let ((woken, mut effects), counts) = (state.take_effects(), state.machine.take_counts());
        let (mut first, mut others) = (None, Vec::new());
        for link in 0..state.wires.len() {
            let runs = || self.runs_beside_caller();
            let Some(writer) = state.writer_of(link, from, runs) else { continue };
            writer.take(state.machine.output(link, now));
            if first.is_none() {
                first = Some(writer);
            } else {
                others.push(writer);
            }
        }
        let task = state.task_to_call(now);
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        if let Some(first) = first {
            self.write(&first, now);
            others.iter().for_each(|writer| self.write(writer, now));
        }
        self.count(counts);
        if let Some(woken) = woken {
            woken.wake();
        }
        if !effects.is_empty() {
            effects.drain(..).for_each(|effect| self.carry_out_one(effect));
            self.lock().spare_effects = effects;
        }
    }

    /// Writes what was taken, and what the link has got meanwhile, outside of the mutex.
    fn write(&self, writer: &Arc<Writer>, now: Moment) {
        let link = writer.link;
        loop {
            let is_blocked = writer.write();
            if !is_blocked && writer.end() {
                return;
            }
            let mut state = self.lock();
            let is_driven = state.is_driven;
            let wire = &mut state.wires[link];
            if !wire.writer.as_ref().is_some_and(|present| Arc::ptr_eq(present, writer)) {
                return;
            }
            if is_blocked && !mem::replace(&mut wire.is_left, is_driven) {
                state.call_task();
            }
            if is_blocked || state.wires[link].is_left {
                writer.leave();
                return;
            }
            writer.take(state.machine.output(link, now));
            // It is due to be answered.
            if state.machine.due() < state.planned.max(now) {
                state.call_task();
            }
        }
    }

    #[inline(never)]
    fn carry_out_one(self: &Arc<Self>, effect: Effect) {
        match effect {
            Effect::Wake(waker) => waker.wake(),
            Effect::Drop(_) => {}
            Effect::Dial(link, within) => self.dial(link, within),
            #[cfg(any(test, feature = "credentials"))]
            Effect::Login(link) => self.ask_for_credentials(link),
            Effect::Tell(event) => self.tell(event),
            #[cfg(any(feature = "cluster", feature = "sentinel"))]
            Effect::Demoted(_) => self.look_again(),
            #[cfg(not(any(feature = "cluster", feature = "sentinel")))]
            Effect::Demoted(_) => {}
            Effect::Close(_link, _) => {
                #[cfg(any(test, feature = "credentials"))]
                self.forget_login(_link);
                let closing = mem::take(&mut self.lock().closing);
                closing.iter().for_each(|writer| writer.half.shut_down());
            }
        }
    }
}

/// The tasks end with the last handle. What is left for the task to write is written first; what a socket does not take at
/// once, a task of its own writes.
impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        state.machine.is_unread(now);
        for (link, wire) in state.wires.iter_mut().enumerate() {
            let Some(writer) = wire.writer.take() else { continue };
            writer.take(state.machine.output(link, now));
            // Also here, as nobody may drive the runtime any more.
            if !writer.write() {
                writer.half.shut_down_writing();
            }
            let lingers = state.machine.in_flight(link) > 0;
            drop(clock::spawn_on(&self.runtime, writer.finish(self.servers.dead_after, lingers)));
        }
        if let Some(task) = state.task.take() {
            task.wake();
        }
    }
}

impl State {
    /// Makes room for links that the machine has made.
    #[cfg(feature = "cluster")]
    fn grow(&mut self) {
        while self.wires.len() < self.machine.links() {
            self.wires.push(Wire::default());
            self.open_breakers.push(None);
        }
    }

    /// Nearly always there is nothing to do, or one caller to wake.
    fn take_effects(&mut self) -> (Option<Waker>, Vec<Effect>) {
        let Self { machine, wires, dialled, closed, closing, has_news, .. } = self;
        let effects = machine.take_effects();
        // At once, so that nothing is taken for the next connection's.
        for effect in effects.iter() {
            if let Effect::Close(link, _) = effect {
                let wire = &mut wires[*link];
                wire.turn = wire.turn.wrapping_add(1);
                wire.aside = None;
                dialled.retain(|(dialled, _)| dialled != link);
                let Some(writer) = wire.writer.take() else { continue };
                closed.push(*link);
                closing.push(writer);
                *has_news = true;
            }
        }
        if effects.is_empty() {
            return (None, Vec::new());
        }
        if matches!(effects[..], [Effect::Wake(_)]) {
            if let Some(Effect::Wake(woken)) = effects.pop() {
                return (Some(woken), Vec::new());
            }
        }
        (None, mem::replace(effects, mem::take(&mut self.spare_effects)))
    }

    /// Takes the output to be written now, if there is any, no other party writes it, and it is not too little, which is left to
    /// the task if that `runs` meanwhile.
    fn writer_of(
        &mut self,
        link: usize,
        from: usize,
        runs: impl FnOnce() -> bool,
    ) -> Option<Arc<Writer>> {
        let wire = &mut self.wires[link];
        let bytes = self.machine.output_bytes(link)?;
        let is_little = bytes < from * self.machine.in_flight(link) || from == 0 && wire.is_left;
        if self.is_driven && is_little && runs() {
            self.has_news |= !mem::replace(&mut wire.is_left, true);
            return None;
        }
        wire.is_left = false;
        wire.writer.clone().filter(|writer| writer.begin())
    }

    /// The task's waker, if there is work of which the task does not know.
    fn task_to_call(&mut self, now: Moment) -> Option<Waker> {
        // Its timer may be late: it stands still where the machine sleeps.
        self.has_news |= self.machine.due() < self.planned.max(now);
        if !self.has_news || mem::replace(&mut self.is_called, true) {
            return None;
        }
        self.task.clone()
    }

    /// There is news for the task.
    fn call_task(&mut self) {
        self.has_news = true;
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }
}

struct Reader {
    half: ReadHalf,
    bytes: BytesMut,
}

/// The one task.
pub(crate) struct Task {
    shared: Weak<Shared>,
    readers: Vec<Option<Reader>>,
    /// Output is left that its socket did not take.
    is_blocked: bool,
    /// It has read its sockets after a stall.
    has_looked: bool,
    /// It has let others write before it.
    has_gathered: bool,
    timer: Pin<Box<Sleep>>,
}

/// A driver and its task, which is to be spawned on the present runtime.
pub(crate) fn new(machine: Machine, servers: Servers, meter: Arc<Meter>) -> (Arc<Shared>, Task) {
    let count = servers.endpoints.len();
    let state = State {
        machine,
        wires: (0..count).map(|_| Wire::default()).collect(),
        dialled: Vec::new(),
        is_driven: true,
        open_breakers: (0..count).map(|_| None).collect(),
        closed: Vec::new(),
        closing: Vec::new(),
        task: None,
        has_news: false,
        is_called: false,
        planned: Moment::from_nanos(0),
        spare_effects: Vec::new(),
        #[cfg(any(feature = "cluster", feature = "sentinel"))]
        follower: None,
    };
    let (state, runtime, servers) = (Mutex::new(state), Handle::current(), Arc::new(servers));
    let shared = Arc::new(Shared { state, servers, meter, holds: Holds::default(), runtime });
    let task = Task {
        shared: Arc::downgrade(&shared),
        readers: (0..count).map(|_| None).collect(),
        is_blocked: false,
        has_looked: false,
        has_gathered: false,
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    (shared, task)
}

impl Task {
    /// Whether there is more to do than to read.
    fn has_news(&self, shared: &Shared, context: &Context<'_>) -> bool {
        let mut state = shared.lock();
        state.is_called = false;
        if !state.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            state.task = Some(context.waker().clone());
            return true;
        }
        let is_due = state.machine.due() < state.planned || self.timer.is_elapsed();
        state.has_news || self.is_blocked || self.has_looked || is_due
    }

    /// Whether ready tasks run first: if a caller has woken this task to write, a runtime of several threads runs it at once,
    /// and commands would go out one by one.
    fn gathers(&mut self, shared: &Shared, context: &Context<'_>) -> bool {
        let has_more = || shared.lock().wires.iter().any(|wire| wire.is_left);
        self.has_gathered = !self.has_gathered && has_more();
        if self.has_gathered {
            context.waker().wake_by_ref();
        }
        self.has_gathered
    }

    /// Takes new connections and those closed meanwhile.
    fn take_news(&mut self, shared: &Arc<Shared>) {
        let mut state = shared.lock();
        state.has_news = false;
        if !state.dialled.is_empty() || !state.closed.is_empty() {
            self.take_news_of(shared, state);
        }
    }

    fn take_news_of(&mut self, shared: &Arc<Shared>, mut state: MutexGuard<'_, State>) {
        let now = clock::now();
        #[cfg(feature = "cluster")]
        while self.readers.len() < state.wires.len() {
            self.readers.push(None);
        }
        for link in mem::take(&mut state.closed) {
            self.readers[link] = None;
        }
        for (link, dialled) in mem::take(&mut state.dialled) {
            match dialled {
                Ok((half, bytes, handshake)) => {
                    self.readers[link] = Some(Reader { half, bytes });
                    state.machine.connected(link, handshake.into_inner(), now);
                }
                Err(fault) => state.machine.disconnected(link, fault, now),
            }
        }
        shared.carry_out(state, now, 0);
    }

    fn read_all(&mut self, shared: &Arc<Shared>, context: &mut Context<'_>) {
        for link in 0..self.readers.len() {
            self.read(shared, link, context);
        }
    }

    fn read(&mut self, shared: &Arc<Shared>, link: usize, context: &mut Context<'_>) {
        for _ in 0..READS_MAX {
            let Some(Reader { half, bytes }) = &mut self.readers[link] else { return };
            if bytes.capacity() - bytes.len() < READ_ROOM_BYTES {
                bytes.reserve(READ_BYTES);
            }
            // Nothing is lost with this future: what was read is in the buffer, or in the half.
            let Poll::Ready(read) = pin!(half.read(bytes)).poll(context) else { return };
            let (now, mut state) = (clock::now(), shared.lock());
            if state.closed.contains(&link) {
                return self.take_news_of(shared, state);
            }
            let fault = match read {
                Ok(1..) => {
                    state.machine.received(link, bytes, now);
                    shared.carry_out(state, now, WRITTEN_FROM);
                    if half.poll_readable(context).is_pending() {
                        return;
                    }
                    continue;
                }
                Ok(0) => NetFault::ClosedByServer,
                Err(error) => error.into(),
            };
            self.readers[link] = None;
            #[cfg(any(test, feature = "credentials"))]
            shared.meter.logins().forget(state.machine.address(link));
            let writer = state.wires[link].writer.take();
            state.wires[link].why = Some(fault.into());
            state.machine.disconnected(link, Fault::Closed, now);
            shared.carry_out(state, now, WRITTEN_FROM);
            drop(writer);
            return;
        }
        context.waker().wake_by_ref();
    }

    /// Writes what was left to the task.
    fn write(&mut self, shared: &Arc<Shared>, context: &mut Context<'_>) {
        self.is_blocked = false;
        for link in 0..self.readers.len() {
            let mut state = shared.lock();
            while state.wires[link].is_left {
                let Some(writer) = state.wires[link].writer.clone() else { break };
                // An error is the reader's to find.
                if writer.half.poll_writable(context).is_pending() {
                    self.is_blocked = true;
                    break;
                }
                state.wires[link].is_left = false;
                if !writer.begin() {
                    break;
                }
                let now = clock::now();
                writer.take(state.machine.output(link, now));
                drop(state);
                shared.write(&writer, now);
                state = shared.lock();
            }
        }
    }

    /// Sets the timer to what is due next; whether that has come.
    fn is_due(&mut self, shared: &Arc<Shared>, context: &mut Context<'_>) -> bool {
        let now = clock::now();
        let mut state = shared.lock();
        let due = state.machine.due();
        if due <= now {
            // The process stood still. A signal ends the runtime's wait without a look at sockets, and timers ring then: what
            // came meanwhile is read before anything is taken for late.
            self.has_looked = due.after(STALL) <= now && !self.has_looked;
            if self.has_looked {
                drop(state);
                return pin!(yield_now()).poll(context).is_ready();
            }
            state.machine.tick(now);
            shared.carry_out(state, now, WRITTEN_FROM);
            return true;
        }
        if due < state.planned || state.planned <= now {
            let planned = due.min(now.after(state.machine.beat()));
            state.planned = planned;
            drop(state);
            self.timer.as_mut().set(clock::sleep(planned.since(now)));
        } else {
            drop(state);
        }
        // If the task has used up tokio's budget for a poll, tokio would not start the timer, and the task would not wake.
        let has_rung = pin!(unconstrained(self.timer.as_mut())).poll(context).is_ready();
        if has_rung {
            shared.lock().planned = Moment::from_nanos(0);
        }
        has_rung
    }
}

/// Its runtime has ended, unless all handles are gone.
impl Drop for Task {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let (now, mut state) = (clock::now(), shared.lock());
        (state.is_driven, state.task) = (false, None);
        state.wires.iter_mut().for_each(|wire| wire.is_left = false);
        state.machine.is_abandoned(now);
        shared.carry_out(state, now, 0);
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = self.shared.upgrade() else { return Poll::Ready(()) };
        let this = &mut *self;
        this.read_all(&shared, context);
        if !this.has_news(&shared, context) || this.gathers(&shared, context) {
            return Poll::Pending;
        }
        this.take_news(&shared);
        this.read_all(&shared, context);
        this.write(&shared, context);
        while this.is_due(&shared, context) {}
        Poll::Pending
    }
}
