use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::*;

const EVENT: Event<'static> = Event::Contended { name: b"a" };

#[test]
fn a_closure_is_an_observer_and_hears_the_event() {
    static HEARD: AtomicU32 = AtomicU32::new(0);
    let observer = |event: &Event<'_>| {
        assert_eq!(*event, EVENT);
        HEARD.fetch_add(1, Relaxed);
    };
    tell(&observer, &EVENT);
    assert_eq!(HEARD.load(Relaxed), 1);
}

/// Panics again when it is dropped.
struct Stubborn;

impl Drop for Stubborn {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("again"));
    }
}

#[test]
fn a_panic_goes_no_further_and_neither_does_one_of_its_payload() {
    tell(&|_: &Event<'_>| std::panic::resume_unwind(Box::new("observer")), &EVENT);
    tell(&|_: &Event<'_>| std::panic::resume_unwind(Box::new(Stubborn)), &EVENT);
}

/// A guard that its holder's panic drops reports its release.
#[test]
fn a_panic_goes_no_further_while_another_unwinds() {
    struct TellsWhenDropped;
    impl Drop for TellsWhenDropped {
        fn drop(&mut self) {
            tell(&|_: &Event<'_>| panic!("an observer's panic, as wanted"), &EVENT);
        }
    }
    let unwound = catch_unwind(|| {
        let _guard = TellsWhenDropped;
        std::panic::resume_unwind(Box::new("holder"));
    });
    assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"holder"));
}

#[test]
fn every_event_has_its_name() {
    let (name, time) = (b"lock".as_slice(), Duration::ZERO);
    let all = [
        Event::Granted { name, waited: time },
        Event::Contended { name },
        Event::Released { name, held_for: time },
        Event::HandedOver { name },
        Event::Ticketed { name },
        Event::Adopted { name },
        Event::Stolen { name, owner: "another", label: None },
        Event::Renewed { name },
        Event::RenewalFailed { name },
        Event::Lost { name, reason: Loss::Gone },
        Event::TimedOut { name, waited: time },
        Event::Failed { name },
        Event::Answered { primitive: Primitive::Limit, name, outcome: "allowed", took: time },
    ];
    assert!(all.iter().all(|event| event.name() == name));
}
