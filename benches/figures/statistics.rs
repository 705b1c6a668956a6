//! Samples of one figure over the rounds, and their summary.

use std::fmt;

/// What was measured in each round, in the order of the rounds.
#[derive(Clone, Default)]
pub struct Samples(Vec<f64>);

/// The middle of the samples, and the range that most of them are in.
#[derive(Clone, Copy)]
pub struct Summary {
    pub median: f64,
    pub tenth: f64,
    pub ninetieth: f64,
}

impl Samples {
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    pub fn summary(&self) -> Summary {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Summary {
            median: quantile(&sorted, 0.5),
            tenth: quantile(&sorted, 0.1),
            ninetieth: quantile(&sorted, 0.9),
        }
    }

    /// Round by round, what stood here over what stood there: noise that lasted for a whole round
    /// was in both.
    pub fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect())
    }
}

/// Between its two nearest neighbours, as most tools have it.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = last as f64 * share;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// `{:.1}` sets the digits.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, tenth, ninetieth } = self;
        let digits = f.precision().unwrap_or(1);
        let width = f.width().unwrap_or(0);
        // `Formatter::pad` would take the precision for a length to cut at.
        let text = format!("{median:.digits$} ({tenth:.digits$} to {ninetieth:.digits$})");
        write!(f, "{text:>width$}")
    }
}
