//! A chart of latencies by percentile.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use plotters::prelude::*;

use super::show::{headline, shown};
use super::tally::{Outcome, Times};

const SIZE: (u32, u32) = (900, 480);
const INK: RGBColor = RGBColor(0x1f, 0x29, 0x37);
const COLOURS: [RGBColor; 3] =
    [RGBColor(0x3b, 0x6e, 0xa5), RGBColor(0x0f, 0x76, 0x6e), RGBColor(0xc2, 0x41, 0x0c)];
/// Distance of a line's points, on an axis where 1 is 90 %, 2 is 99 %, 3 is 99.9 % of all pairs.
const STEP: f64 = 0.02;
/// In seconds.
const MICROSECOND: f64 = 1e-6;
/// The axis goes to 99 % at least, also after few pairs.
const NINES_MIN: f64 = 2.0;

/// Checks before the measurement that the file can be written.
pub fn check(file: &Path) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(file).map(drop)
}

pub fn write(outcome: &Outcome, file: &Path) -> io::Result<()> {
    let mut svg = String::new();
    draw(outcome, &mut svg).map_err(|error| io::Error::other(error.to_string()))?;
    fs::write(file, svg)
}

fn draw(outcome: &Outcome, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let tally = &outcome.tally;
    let lines = [("both", &tally.pair), ("acquire", &tally.acquire), ("release", &tally.release)];
    #[expect(clippy::cast_precision_loss, reason = "nobody counts that far")]
    let nines = (tally.pairs().max(1) as f64).log10().max(NINES_MIN);
    let least = lines.map(|(_, times)| height(times, 0.0)).into_iter().fold(f64::MAX, f64::min);
    let most = lines.map(|(_, times)| height(times, nines)).into_iter().fold(f64::MIN, f64::max);
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(headline(outcome), ("sans-serif", 16).into_font().color(&INK))
        .margin(16)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..nines, least - 0.1..most + 0.1)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(whole(nines) + 1)
        .x_label_formatter(&|nines| percent(*nines))
        .y_label_formatter(&|height| shown(Duration::from_secs_f64(height.exp2() * MICROSECOND)))
        .x_desc("share of all locks")
        .y_desc("took at most")
        .draw()?;
    for ((name, times), colour) in lines.into_iter().zip(COLOURS) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points(times, nines), style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    area.present()?;
    Ok(())
}

fn points(times: &Times, nines: f64) -> impl Iterator<Item = (f64, f64)> {
    let steps = std::iter::successors(Some(0.0), |at| Some(at + STEP));
    let steps = steps.take_while(move |at| *at < nines).chain([nines]);
    steps.map(|at| (at, height(times, at)))
}

/// The height of a quantile, which grows by 1 with each doubling of the time. A microsecond is 0.
fn height(times: &Times, nines: f64) -> f64 {
    let time = times.quantile(1.0 - 10_f64.powf(-nines));
    (time.max(Duration::from_nanos(1)).as_secs_f64() / MICROSECOND).log2()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are few")]
fn whole(nines: f64) -> usize {
    nines as usize
}

/// 90 % for one nine, 99 % for two, 99.9 % for three.
fn percent(nines: f64) -> String {
    let share = 100.0 * (1.0 - 10_f64.powf(-nines));
    let digits = whole(nines).saturating_sub(2);
    format!("{share:.digits$} %")
}

#[cfg(test)]
mod tests {
    use super::super::tally::{Sample, Tally};
    use super::*;

    fn outcome(samples: u64) -> Outcome {
        let mut tally = Tally::default();
        for micros in 1..=samples {
            let acquire = Duration::from_micros(micros);
            tally.add(Sample { acquire, release: acquire });
        }
        let elapsed = Duration::from_secs(1);
        Outcome { servers: 1, tasks: 1, is_fenced: true, elapsed, tally }
    }

    #[test]
    fn a_chart_is_drawn_of_much_little_and_nothing() {
        for samples in [0, 1, 5000] {
            let mut svg = String::new();
            draw(&outcome(samples), &mut svg).unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            for name in ["acquire", "release", "both"] {
                assert!(svg.contains(name), "{name}");
            }
        }
    }

    #[test]
    fn lines_rise_to_the_longest() {
        let outcome = outcome(1000);
        let heights: Vec<f64> = points(&outcome.tally.acquire, 3.0).map(|(_, y)| y).collect();
        assert!(heights.is_sorted() && heights.len() > 100);
        let last = heights.last().unwrap().exp2();
        assert!((990.0..1010.0).contains(&last), "{last}");
        assert_eq!([percent(0.0), percent(1.0), percent(3.0)], ["0 %", "90 %", "99.9 %"]);
    }
}
