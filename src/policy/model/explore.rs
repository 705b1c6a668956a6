//! Breadth-first search through every state that a model can reach, so that the first breach found
//! is one with the fewest steps.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A model: states, and every step that the world may take from one.
pub(super) trait Model {
    type State: Copy + Eq + Hash;
    type Step: Copy + fmt::Display;

    fn start(&self) -> Self::State;
    /// Pushes every step possible in `state`, with the next state.
    fn steps(&self, state: &Self::State, found: &mut Vec<(Self::Step, Self::State)>);
    /// The representative of all states that differ only in the servers' numbers.
    fn canonical(&self, state: Self::State) -> Self::State;
    /// The property that `state` breaks.
    fn breach(&self, state: &Self::State) -> Option<&'static str>;
}

/// A broken property, and a shortest way to it.
pub(super) struct Counterexample {
    pub(super) breach: &'static str,
    pub(super) steps: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(text, "  {number:2}. {step}")?;
        }
        write!(f, "{} after {} steps:\n{text}", self.breach, self.steps.len())
    }
}

/// The result of an exploration.
pub(super) struct Explored {
    pub(super) states: usize,
    pub(super) counterexample: Option<Counterexample>,
}

/// No test may fill the machine's memory: more states than this are a mistake in its bounds.
const STATES_MAX: usize = 8_000_000;

/// A state that was reached, and its predecessor.
struct Reached<S> {
    state: S,
    from: u32,
}

/// Visits every reachable state once, or stops at the first that breaks a property.
///
/// States are told apart by their contents; the fingerprint only says where to look.
pub(super) fn explore<M: Model>(model: &M) -> Explored {
    let mut reached = vec![Reached { state: model.canonical(model.start()), from: 0 }];
    let mut known: HashMap<u64, u32, BuildHasherDefault<Identity>> = HashMap::default();
    known.insert(fingerprint(&reached[0].state), 0);
    let mut found = Vec::new();
    let mut at = 0;
    while at < reached.len() {
        let state = reached[at].state;
        if let Some(breach) = model.breach(&state) {
            let steps = retrace(model, &reached, at);
            let counterexample = Some(Counterexample { breach, steps });
            return Explored { states: reached.len(), counterexample };
        }
        model.steps(&state, &mut found);
        for (_, next) in found.drain(..) {
            let next = model.canonical(next);
            let mut print = fingerprint(&next);
            let is_known = loop {
                match known.get(&print) {
                    Some(&index) if reached[index as usize].state == next => break true,
                    Some(_) => print = print.wrapping_add(1),
                    None => break false,
                }
            };
            if !is_known {
                known.insert(print, index_of(reached.len()));
                reached.push(Reached { state: next, from: index_of(at) });
            }
        }
        assert!(reached.len() < STATES_MAX, "the bounds are too wide");
        at += 1;
    }
    Explored { states: reached.len(), counterexample: None }
}

fn index_of(length: usize) -> u32 {
    u32::try_from(length).expect("STATES_MAX is far below")
}

/// The steps to `reached[last]`, in which servers keep their numbers.
fn retrace<M: Model>(model: &M, reached: &[Reached<M::State>], last: usize) -> Vec<String> {
    let mut path = Vec::new();
    let mut at = last;
    while at != 0 {
        path.push(reached[at].state);
        at = reached[at].from as usize;
    }
    let mut state = model.start();
    let mut steps = Vec::new();
    for wanted in path.into_iter().rev() {
        let mut found = Vec::new();
        model.steps(&state, &mut found);
        let (step, next) = found
            .into_iter()
            .find(|(_, next)| model.canonical(*next) == wanted)
            .expect("the numbering of servers changes nothing");
        steps.push(step.to_string());
        state = next;
    }
    steps
}

fn fingerprint(state: &impl Hash) -> u64 {
    let mut mixer = Mixer(0);
    state.hash(&mut mixer);
    mixer.finish()
}

/// A hash that is cheap without optimization.
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.mix(u64::from_le_bytes(word.try_into().expect("it has eight bytes")));
        }
        if !words.remainder().is_empty() {
            let mut word = [0; 8];
            word[..words.remainder().len()].copy_from_slice(words.remainder());
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }

    /// The length of an array, which is the same in all states.
    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

/// For keys that are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
