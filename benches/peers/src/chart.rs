//! Charts as SVG: groups of bars with their spread, or lines.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::statistics::Summary;

const WIDTH: u32 = 900;
const MARGIN: i32 = 20;
const HEAD: i32 = 56;
const FOOT: i32 = 30;
const LABELS: i32 = 250;
const FIGURES: i32 = 110;
const BAR: i32 = 18;
const GROUP: i32 = 34;
const OURS: RGBColor = RGBColor(0xc2, 0x41, 0x0c);
const FLOOR: RGBColor = RGBColor(0x9c, 0xa3, 0xaf);
const PEER: RGBColor = RGBColor(0x3b, 0x6e, 0xa5);
const INK: RGBColor = RGBColor(0x1f, 0x29, 0x37);
const PEERS: [RGBColor; 7] = [
    PEER,
    RGBColor(0x0f, 0x76, 0x6e),
    RGBColor(0x7c, 0x3a, 0xed),
    RGBColor(0xa1, 0x62, 0x07),
    RGBColor(0xbe, 0x18, 0x5d),
    RGBColor(0x4d, 0x7c, 0x0f),
    RGBColor(0x64, 0x74, 0x8b),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Floor,
    Ours,
    Peer,
}

pub struct Bar {
    pub label: String,
    pub role: Role,
    pub value: Summary,
}

pub struct Line {
    pub label: String,
    pub role: Role,
    pub points: Vec<(u32, f64)>,
}

pub enum Kind {
    /// Groups, each with its heading.
    Bars(Vec<(String, Vec<Bar>)>),
    /// Panels side by side, each with its heading; the first axis doubles from step to step.
    Lines(Vec<(String, Vec<Line>)>),
}

pub struct Chart {
    pub title: String,
    pub kind: Kind,
    /// After the comma of figures beside bars.
    pub digits: usize,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The backend writes sizes down smaller than it is told.
fn style(size: i32, color: &RGBColor) -> TextStyle<'_> {
    TextStyle::from(("sans-serif", f64::from(size) * 1.24).into_font()).color(color)
}

impl Chart {
    pub fn write(&self, path: &Path, machine: &str) {
        let height = match &self.kind {
            Kind::Bars(groups) => {
                let bars = groups.iter().map(|(_, bars)| bars.len() as i32).sum::<i32>();
                HEAD + FOOT + GROUP * groups.len() as i32 + BAR * bars
            }
            Kind::Lines(_) => 480,
        };
        let area = SVGBackend::new(path, (WIDTH, height as u32)).into_drawing_area();
        area.fill(&WHITE).expect("an SVG takes it");
        text(&area, &self.title, (MARGIN, 14), &style(18, &INK));
        text(&area, machine, (MARGIN, height - 20), &style(11, &FLOOR));
        match &self.kind {
            Kind::Bars(groups) => self.bars(&area, groups),
            Kind::Lines(panels) => lines(&area, panels),
        }
        area.present().expect("the file can be written");
    }

    fn bars(&self, area: &Area<'_>, groups: &[(String, Vec<Bar>)]) {
        let all = groups.iter().flat_map(|(_, bars)| bars);
        let most = all.map(|bar| bar.value.median).fold(0.0, f64::max);
        let width = f64::from(WIDTH as i32 - LABELS - FIGURES - 2 * MARGIN);
        let x = |value: f64| LABELS + (value.min(most) / most * width) as i32;
        let mut y = HEAD;
        for (heading, bars) in groups {
            text(area, heading, (MARGIN, y), &style(14, &INK));
            y += GROUP - 12;
            for bar in bars {
                let color = match bar.role {
                    Role::Floor => FLOOR,
                    Role::Ours => OURS,
                    Role::Peer => PEER,
                };
                text(area, &bar.label, (MARGIN + 12, y + 2), &style(13, &INK));
                let Summary { median, tenth, ninetieth } = bar.value;
                let corners = [(LABELS, y + 2), (x(median).max(LABELS + 1), y + BAR - 3)];
                area.draw(&Rectangle::new(corners, color.filled())).expect("an SVG takes it");
                let middle = y + BAR / 2;
                let spread = vec![(x(tenth), middle), (x(ninetieth), middle)];
                area.draw(&PathElement::new(spread, INK.mix(0.6))).expect("an SVG takes it");
                let figure = format!("{median:.*}", self.digits);
                let at = x(median.max(ninetieth)) + 8;
                text(area, &figure, (at, y + 2), &style(13, &INK));
                y += BAR;
            }
            y += 12;
        }
    }
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), style: &TextStyle<'_>) {
    area.draw_text(text, style, at).expect("an SVG takes it");
}

fn lines(area: &Area<'_>, panels: &[(String, Vec<Line>)]) {
    let (_, below) = area.split_vertically(HEAD - 16);
    let (below, _) = below.split_vertically(480 - HEAD - FOOT + 16);
    for (panel, (heading, lines)) in below.split_evenly((1, panels.len())).iter().zip(panels) {
        let points = || lines.iter().flat_map(|line| &line.points);
        let most_tasks = points().map(|&(tasks, _)| tasks).max().unwrap_or(1);
        let most = points().map(|&(_, value)| value).fold(1.0, f64::max) * 1.08;
        let steps = f64::from(most_tasks).log2();
        let mut chart = ChartBuilder::on(panel)
            .caption(heading, style(14, &INK))
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(40)
            .build_cartesian_2d(0.0..steps, 0.0..most)
            .expect("the panel is large enough");
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(11)
            .x_label_formatter(&|step| format!("{:.0}", step.exp2()))
            .x_desc("tasks")
            .draw()
            .expect("an SVG takes it");
        let mut peers = PEERS.iter().cycle();
        for line in lines {
            let color = match line.role {
                Role::Ours => OURS,
                Role::Floor => FLOOR,
                Role::Peer => *peers.next().expect("a cycle has no end"),
            };
            let width = if line.role == Role::Ours { 3 } else { 2 };
            let style = color.stroke_width(width);
            let points = line.points.iter().map(|&(tasks, value)| (f64::from(tasks).log2(), value));
            chart
                .draw_series(LineSeries::new(points, style))
                .expect("an SVG takes it")
                .label(&line.label)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .label_font(style(11, &INK))
            .draw()
            .expect("an SVG takes it");
    }
}
