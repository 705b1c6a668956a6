//! A subscriber that keeps all spans and events of this library.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use leasehold_testing::tracing_subscriber::Layer;
use leasehold_testing::tracing_subscriber::layer::{Context, SubscriberExt};
use leasehold_testing::tracing_subscriber::registry::LookupSpan;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// A span as it was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    id: u64,
    pub(crate) name: &'static str,
    pub(crate) fields: BTreeMap<&'static str, String>,
    parent: Option<u64>,
    follows: Option<u64>,
    pub(crate) is_closed: bool,
}

impl Seen {
    /// What a field says; "" where it says nothing.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    pub(crate) fn outcome(&self) -> &str {
        self.field("outcome")
    }

    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.parent == Some(other.id)
    }

    pub(crate) fn follows(&self, other: &Self) -> bool {
        self.follows == Some(other.id)
    }
}

#[derive(Default)]
struct Heard {
    spans: Vec<Seen>,
    events: Vec<Seen>,
}

/// Hears nothing, and is asked each time.
struct Deaf;

impl Subscriber for Deaf {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A place in the code that another thread reaches for the first time, while a subscriber is set here, is off for all: its
/// interest is worked out for those that are known, and kept. With this one nothing is kept.
static IS_ASKED: Once = Once::new();

#[derive(Clone, Default)]
pub(crate) struct Capture(Arc<Mutex<Heard>>);

impl Capture {
    /// Captures what this thread does, until what is given back is dropped.
    pub(crate) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        IS_ASKED
            .call_once(|| tracing::subscriber::set_global_default(Deaf).expect("it is the first"));
        let capture = Self::default();
        let subscriber = leasehold_testing::tracing_subscriber::registry().with(capture.clone());
        (capture, tracing::subscriber::set_default(subscriber))
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spans of this name, in the order in which they began.
    pub(crate) fn spans(&self, name: &str) -> Vec<Seen> {
        self.heard().spans.iter().filter(|span| span.name == name).cloned().collect()
    }

    /// The one span of this name.
    #[track_caller]
    pub(crate) fn span(&self, name: &str) -> Seen {
        let mut spans = self.spans(name);
        assert_eq!(spans.len(), 1, "{name}: {spans:?}");
        spans.remove(0)
    }

    pub(crate) fn events(&self) -> Vec<Seen> {
        self.heard().events.clone()
    }

    /// All that was said, in whatever field.
    pub(crate) fn text(&self) -> String {
        let heard = self.heard();
        format!("{:?} {:?}", heard.spans, heard.events)
    }

    fn with(&self, id: &Id, change: impl FnOnce(&mut Seen)) {
        let id = id.into_u64();
        let mut heard = self.heard();
        // The registry uses numbers again: the last one of that number is meant.
        change(heard.spans.iter_mut().rev().find(|span| span.id == id).expect("it began"));
    }
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        let parent = context.span(id).and_then(|span| Some(span.parent()?.id().into_u64()));
        let (id, name) = (id.into_u64(), attributes.metadata().name());
        self.heard().spans.push(Seen { id, name, fields, parent, ..Seen::default() });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.with(id, |span| values.record(&mut Fields(&mut span.fields)));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        self.with(id, |span| span.follows = Some(follows.into_u64()));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() != "leasehold" {
            return;
        }
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let parent = context.event_span(event).map(|span| span.id().into_u64());
        let name = event.metadata().level().as_str();
        self.heard().events.push(Seen { name, fields, parent, ..Seen::default() });
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.with(&id, |span| span.is_closed = true);
    }
}
