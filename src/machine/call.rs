//! Questions of callers that hold no lease: a command to one server, whose reply the caller reads for itself.
//!
//! A question that reads may be *watched*: once it is answered it stays until its caller forgets it, and is told when its
//! key changes. Servers tell of what others do; what this machine's own connection did there, which a server
//! does not tell, the machine knows by the replies.

use std::task::{Context, Poll};
use std::time::Duration;

use super::calls::{Call, Called, State, UnderWay};
use super::core::{Effect, Happening, Machine};
use super::ids::CallId;
use super::lease::Refusal;
use super::link::Reply;
use crate::policy::{Failing, Moment};

impl Machine {
    /// Something has happened that questions have to do with. Whether that is all there is to do.
    pub(super) fn callers_hear(&mut self, happening: Happening<'_>, now: Moment) -> bool {
        match happening {
            Happening::Tried(server) => {
                let is_it =
                    |call: &UnderWay| call.server == server && matches!(call.state, State::Waiting);
                let waiting = self.calls.all().filter(|(_, call)| is_it(call)).map(|(id, _)| id);
                let waiting: Vec<CallId> = waiting.collect();
                waiting.into_iter().for_each(|id| self.put_call(id, now));
            }
            Happening::Missed(server, id) => {
                let Self { links, calls, settings, .. } = self;
                // Also where nobody waits for this one any more.
                links[server].brought.clear();
                let Some(call) = calls.get_mut(id) else { return false };
                call.server = server;
                if !call.may_be_missed() {
                    return false;
                }
                if links[server].is_ready() {
                    call.ask(id, links, settings.owner_id, now);
                } else {
                    call.state = State::Waiting;
                    self.begin_call(id, now);
                }
                return true;
            }
            Happening::Replied(id, reply) => self.called(id, reply, now),
            Happening::Changed(key) => self.calls.are_told(key, &mut self.effects),
            Happening::Answered(id) => {
                if let Some(lease) = self.leases.get(id).filter(|_| self.calls.watched > 0) {
                    self.calls.are_told(Some(lease.names.lock()), &mut self.effects);
                }
            }
            Happening::Closed => {
                let Self { calls, effects, .. } = self;
                for (_, call) in calls.all() {
                    call.is_told(effects);
                    if matches!(call.state, State::Waiting | State::Asked) {
                        call.end(Called::Unknown, effects);
                    }
                }
            }
        }
        false
    }

    /// A server is asked. [`Machine::poll_call`] says what came of that.
    pub(crate) fn call(&mut self, server: usize, question: Call, now: Moment) -> CallId {
        #[cfg(any(test, feature = "cluster"))]
        if self.is_by_slots() {
            let key = question.keys.get(usize::from(question.script.is_none()));
            let link = self.link_of_key(key.map_or(&[], |key| key));
            return self.call_at(link, question, now);
        }
        self.call_at(server, question, now)
    }

    /// The server at this very link is asked.
    pub(crate) fn call_at(&mut self, server: usize, question: Call, now: Moment) -> CallId {
        let state = State::Waiting;
        let call = UnderWay { server, question, state, is_told: false, missed: 0, waker: None };
        let id = self.calls.insert(Box::new(call));
        self.begin_call(id, now);
        id
    }

    fn begin_call(&mut self, id: CallId, now: Moment) {
        let is_alone = self.is_alone();
        let Self { links, calls, settings, effects, .. } = self;
        let Some(call) = calls.get_mut(id) else { return };
        let (link, acts) = (&mut links[call.server], call.question.acts);
        let is_left_out = acts && !is_alone && link.left_out(now, settings.random).is_some();
        if self.closed == Some(Refusal::Undriven) {
            call.end(Called::Unreached, effects);
        } else if is_left_out {
            let left = link.breaker.opens_in(now).unwrap_or_default();
            call.end(Called::LeftOut(left), effects);
        } else if !link.is_ready() && !link.is_down {
            if link.want(now) {
                self.note(now);
            }
        } else {
            self.put_call(id, now);
        }
    }

    /// Sends it, or says why not.
    fn put_call(&mut self, id: CallId, now: Moment) {
        let Self { links, calls, settings, effects, .. } = self;
        let Some(call) = calls.get_mut(id) else { return };
        let link = &mut links[call.server];
        match link.refusal(now) {
            Some(Failing::Quarantined(wait)) if call.question.acts => {
                call.end(Called::Quarantined(wait), effects);
            }
            None | Some(Failing::Quarantined(_)) => call.ask(id, links, settings.owner_id, now),
            Some(_) => {
                call.end(Called::Unreached, effects);
                if link.want(now) {
                    self.note(now);
                }
            }
        }
    }

    /// What came of a question; no reply where its connection ended.
    fn called(&mut self, id: CallId, reply: Option<&Reply>, now: Moment) {
        let Self { calls, effects, .. } = self;
        let Some(call) = calls.get_mut(id) else { return };
        let (server, acts) = (call.server, call.question.acts);
        let changes = |reply: &Reply| (call.question.changes)(&reply.frame);
        let is_changed = reply.is_some_and(changes);
        let keys = std::mem::take(&mut call.question.keys);
        let script = call.question.script.map_or("", |script| script.text);
        let called = match reply.map(|reply| (&reply.frame, reply.frame.error())) {
            Some((frame, None)) => Called::Replied(frame.clone()),
            Some((_, Some(text))) => {
                Called::Refused { text: text.clone(), script, keys: keys.clone() }
            }
            None => Called::Unknown,
        };
        call.end(called, effects);
        if is_changed {
            // A server does not tell of what this connection itself has changed there. A question that has no keys
            // meanwhile is not told of what it did.
            keys.iter().for_each(|key| calls.are_told(Some(key), effects));
        }
        if let Some(call) = calls.get_mut(id) {
            call.question.keys = keys;
        }
        if acts && reply.is_some() {
            self.note_answer(server);
        } else if reply.is_none() {
            self.note_failures(bit(server), now);
        }
    }

    /// What came of a question, once, and the link where it was asked last; unless it is watched, it is forgotten by that.
    pub(crate) fn poll_call(&mut self, id: CallId, context: &Context<'_>) -> Poll<(usize, Called)> {
        let call = self.calls.get_mut(id).expect("nobody has forgotten it");
        if !matches!(call.state, State::Ended(_)) {
            call.wait(context.waker(), &mut self.effects);
            return Poll::Pending;
        }
        let State::Ended(called) = std::mem::replace(&mut call.state, State::Watching) else {
            return Poll::Pending;
        };
        let server = call.server;
        if call.question.watched.is_none() {
            self.calls.remove(id);
        }
        Poll::Ready((server, called))
    }

    /// How long the first reply took on the connection where a question was asked last.
    pub(crate) fn greeted_in(&mut self, id: CallId) -> Duration {
        self.calls.get_mut(id).map_or(Duration::ZERO, |call| self.links[call.server].greeted_in)
    }

    /// Ready once something has happened to the key of a watched question since that was put.
    pub(crate) fn poll_news(&mut self, id: CallId, context: &Context<'_>) -> Poll<()> {
        match self.calls.get_mut(id).filter(|call| !call.is_told) {
            None => Poll::Ready(()),
            Some(call) => {
                call.wait(context.waker(), &mut self.effects);
                Poll::Pending
            }
        }
    }

    /// Nobody asks what came of it any more. Where the answer `is_late`, its server has not answered.
    pub(crate) fn forget_call(&mut self, id: CallId, is_late: bool, now: Moment) {
        let Some(call) = self.calls.remove(id) else { return };
        self.effects.extend(call.waker.map(Effect::Drop));
        if !matches!(call.state, State::Asked) {
            return;
        }
        if call.question.acts {
            // It may change them yet. What asks for them from here on comes behind it.
            let Self { calls, effects, .. } = self;
            call.question.keys.iter().for_each(|key| calls.are_told(Some(key), effects));
        }
        if is_late {
            self.note_failures(bit(call.server), now);
        }
    }

    /// Whether a server tells of changes to what a watched question reads.
    pub(crate) fn tells(&self, server: usize) -> bool {
        self.links[server].is_ready() && self.links[server].told.is_tracking
    }

    /// In which time a server may vote that may have forgotten leases; none where it may now, or there is no connection.
    pub(crate) fn votes_in(&self, server: usize, now: Moment) -> Option<Duration> {
        match self.links[server].refusal(now) {
            Some(Failing::Quarantined(wait)) => Some(wait),
            _ => None,
        }
    }

    /// It was shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed == Some(Refusal::ShutDown)
    }
}

/// Where there are several servers that vote, there are few.
fn bit(server: usize) -> u64 {
    1_u64.checked_shl(u32::try_from(server).unwrap_or(u32::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Wake, Waker};

    use bytes::Bytes;
    use leasehold_resp::Frame;

    use super::super::tests::{Bench, acquire, bulk, error, greeting, settings, stamp, text};
    use super::super::{Fault, Login, Script};
    use super::*;

    const MISSING: &str = "NOSCRIPT No matching script. Please use EVAL.";

    /// What calls a script that is none of a lock's, with this key.
    fn question(key: &str, is_watched: bool) -> Call {
        let digest = b"0123456789012345678901234567890123456789";
        Call {
            script: Some(Script { text: "return 9", digest }),
            is_whole: false,
            keys: Box::new([key.as_bytes().into(), b"beside"[..].into()]),
            words: Box::new([b"word"[..].into()]),
            acts: !is_watched,
            changes: |_| true,
            watched: is_watched.then_some(0),
        }
    }

    fn called(bench: &mut Bench, id: CallId) -> Poll<Called> {
        bench.machine.poll_call(id, &Context::from_waker(Waker::noop())).map(|(_, called)| called)
    }

    fn has_news(bench: &mut Bench, id: CallId) -> bool {
        bench.machine.poll_news(id, &Context::from_waker(Waker::noop())).is_ready()
    }

    fn call(bench: &mut Bench, question: Call) -> CallId {
        bench.machine.call(0, question, bench.now)
    }

    /// The one script that is called.
    fn asked(bench: &mut Bench) -> Vec<Bytes> {
        let said = bench.said(0).into_iter().filter(|command| command[0].starts_with(b"EVAL"));
        let [command] = &said.collect::<Vec<_>>()[..] else { panic!() };
        command.clone()
    }

    #[test]
    fn a_question_is_answered_once_and_a_late_reply_is_nobodys() {
        let mut bench = Bench::connected(1);
        let id = call(&mut bench, question("k", false));
        let command = asked(&mut bench);
        assert_eq!(text(&command[2..6]), "2 k beside word");
        assert!(called(&mut bench, id).is_pending());
        bench.machine.forget_call(id, false, bench.now);
        let other = call(&mut bench, question("k", false));
        bench.reply(0, &Frame::Array([stamp(&command), Frame::Integer(1)].into()));
        assert!(called(&mut bench, other).is_pending());
        let command = asked(&mut bench);
        bench.reply(0, &Frame::Array([stamp(&command), Frame::Integer(2)].into()));
        let Poll::Ready(Called::Replied(reply)) = called(&mut bench, other) else { panic!() };
        assert_eq!(reply, Frame::Array([stamp(&command), Frame::Integer(2)].into()));
    }

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_asks_again_and_again_is_woken_once_there_is_news() {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let context = Context::from_waker(&waker);
        let mut bench = Bench::connected(1);
        let wakes = |bench: &mut Bench| {
            bench.effects.append(bench.machine.take_effects());
            for effect in bench.effects.drain(..) {
                if let Effect::Wake(waker) = effect {
                    waker.wake();
                }
            }
            woken.0.swap(0, Ordering::Relaxed)
        };
        let id = call(&mut bench, Call { acts: true, ..question("k", true) });
        let command = asked(&mut bench);
        for _ in 0..2 {
            assert!(bench.machine.poll_call(id, &context).is_pending());
            assert_eq!(wakes(&mut bench), 0);
        }
        bench.reply(0, &Frame::Array([stamp(&command), Frame::Integer(1)].into()));
        assert_eq!(wakes(&mut bench), 1);
        assert!(bench.machine.poll_call(id, &context).is_ready());
        // It may have changed its key itself.
        for _ in 0..2 {
            assert!(bench.machine.poll_news(id, &context).is_pending());
            assert_eq!(wakes(&mut bench), 0);
        }
        bench.machine.changed(Some(b"k"), bench.now);
        assert_eq!(wakes(&mut bench), 1);
        assert!(bench.machine.poll_news(id, &context).is_ready());
    }

    #[test]
    fn a_missing_script_is_sent_itself_and_another_error_is_the_answer() {
        let mut bench = Bench::connected(1);
        let id = call(&mut bench, question("k", false));
        for why in [MISSING, "ERR why not"] {
            asked(&mut bench);
            bench.reply(0, &error(why));
            let seal = bench.said(0).into_iter().find(|command| command[0] == "ECHO");
            bench.reply(0, &bulk(&seal.unwrap()[1]));
        }
        let Poll::Ready(Called::Refused { text, script, keys }) = called(&mut bench, id) else {
            panic!()
        };
        assert_eq!((&text[..], script), (&b"ERR why not"[..], "return 9"));
        assert_eq!(keys.iter().map(|key| &key[..]).collect::<Vec<_>>(), [&b"k"[..], b"beside"]);
    }

    #[test]
    fn of_several_servers_the_first_call_on_each_connection_brings_the_script() {
        let mut bench = Bench::connected(3);
        // Nobody waits for what comes of the last before the script is missed.
        let put = |bench: &mut Bench, is_missed: bool| {
            let id = call(bench, question("k", false));
            let command = asked(bench);
            bench.machine.forget_call(id, false, bench.now);
            bench.reply(0, &if is_missed { error(MISSING) } else { stamp(&command) });
            let seal = bench.said(0).into_iter().find(|command| command[0] == "ECHO");
            seal.into_iter().for_each(|seal| bench.reply(0, &bulk(&seal[1])));
            text(&command[..1])
        };
        assert_eq!(put(&mut bench, false), "EVAL");
        assert_eq!(put(&mut bench, true), "EVALSHA");
        assert_eq!(put(&mut bench, false), "EVAL");
        assert_eq!(put(&mut bench, false), "EVALSHA");
        bench.close(0);
        bench.dial(0, Login::default());
        bench.answer(0, |command| vec![greeting(command, "")]);
        assert_eq!(put(&mut bench, false), "EVAL");
    }

    #[test]
    fn what_a_reply_says_to_be_as_it_was_is_no_news_and_what_nobody_waits_for_may_be() {
        let mut bench = Bench::connected(1);
        let reply = |command: &[Bytes]| match &command[0][..] {
            b"EVALSHA" => vec![stamp(command)],
            _ => vec![greeting(command, "")],
        };
        let watched = call(&mut bench, question("k", true));
        bench.answer(0, reply);
        assert!(called(&mut bench, watched).is_ready());
        for is_forgotten in [false, true] {
            let id = call(&mut bench, Call { changes: |_| false, ..question("k", false) });
            if is_forgotten {
                bench.machine.forget_call(id, false, bench.now);
            }
            assert_eq!(has_news(&mut bench, watched), is_forgotten);
            bench.answer(0, reply);
            assert_eq!(has_news(&mut bench, watched), is_forgotten);
        }
    }

    #[test]
    fn a_question_waits_for_a_connection_that_may_come_and_for_no_other() {
        let mut bench = Bench::new(1, settings(1));
        let ids = [(); 2].map(|()| call(&mut bench, question("k", false)));
        bench.dial(0, Login::default());
        bench.answer(0, |command| match &command[0][..] {
            b"EVALSHA" => vec![],
            _ => vec![greeting(command, "")],
        });
        assert!(ids.map(|id| called(&mut bench, id)).iter().all(Poll::is_pending));
        bench.close(0);
        for id in ids {
            assert!(matches!(called(&mut bench, id), Poll::Ready(Called::Unknown)));
        }
        let waiting = call(&mut bench, question("k", false));
        assert!(called(&mut bench, waiting).is_pending(), "it is dialled again");
        bench.pass(std::time::Duration::from_secs(2));
        bench.machine.disconnected(0, Fault::Undialled { is_lasting: false }, bench.now);
        let late = call(&mut bench, question("k", false));
        for id in [waiting, late] {
            assert!(matches!(called(&mut bench, id), Poll::Ready(Called::Unreached)));
        }
    }

    #[test]
    fn a_watched_question_hears_of_what_others_do_and_of_what_its_own_connection_does() {
        let mut bench = Bench::connected(1);
        let changes: [fn(&mut Bench); 5] = [
            |bench| bench.machine.changed(Some(b"k"), bench.now),
            |bench| _ = call(bench, question("k", false)),
            |bench| _ = acquire(bench, b"k"),
            |bench| bench.close(0),
            |bench| _ = bench.machine.shut_down(bench.now),
        ];
        for change in changes {
            let id = call(&mut bench, question("k", true));
            if !bench.machine.serves(0) {
                bench.dial(0, Login::default());
            }
            let reply = |command: &[Bytes]| match &command[0][..] {
                b"EVALSHA" => vec![stamp(command)],
                _ => vec![greeting(command, "")],
            };
            bench.answer(0, reply);
            assert!(matches!(called(&mut bench, id), Poll::Ready(Called::Replied(_))));
            call(&mut bench, question("other", false));
            bench.answer(0, reply);
            bench.machine.changed(Some(b"beside"), bench.now);
            assert!(!has_news(&mut bench, id));
            change(&mut bench);
            bench.answer(0, reply);
            assert!(has_news(&mut bench, id));
            bench.machine.forget_call(id, false, bench.now);
        }
    }
}
