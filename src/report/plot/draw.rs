//! Drawing with plotters: a header of our own, then axes, band, marks, lines and points.

use crate::report::plot::scale::Scale;
use crate::report::plot::{Axis, Chart, Marks};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::prelude::{
    ChartBuilder, Color, DrawingArea, DrawingBackend, IntoFont, RGBColor, TRANSPARENT, TextStyle, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};
use std::error::Error;
use std::ops::Range;
use std::sync::Once;

pub(super) const WIDTH: i32 = 1200;
pub(super) const HEIGHT: i32 = 700;
const FAMILY: &str = "sans-serif";

/// Radius of a point whose area means the whole, in pixels of the picture.
const LARGEST_DOT: f64 = 30.0;

pub(super) const INK: RGBColor = RGBColor(34, 34, 34);
const QUIET: RGBColor = RGBColor(95, 95, 95);
const GRID: RGBColor = RGBColor(232, 232, 232);
const FAINT: RGBColor = RGBColor(208, 208, 208);
const STRONG: RGBColor = RGBColor(213, 94, 0);

/// Okabe and Ito's colours, which colour-blind readers can distinguish; the orange red of the marks is left out.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(0, 0, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

pub(super) type Fails = Box<dyn Error + Send + Sync>;
pub(super) type Done = Result<(), Fails>;

/// A drawing area whose sizes are given in pixels of the final picture.
pub(super) struct Canvas<'a, DB: DrawingBackend> {
    pub(super) root: &'a DrawingArea<DB, Shift>,
    /// Pixels of the area for one of the picture.
    pub(super) scale: i32,
    /// Pixels of the picture from left to right.
    pub(super) width: i32,
    /// How far texts are lowered to be centred, as a share of their size.
    sink: f64,
}

impl<'a, DB: DrawingBackend + 'a> Canvas<'a, DB>
where
    DB::ErrorType: 'static,
{
    pub(super) fn new(root: &'a DrawingArea<DB, Shift>, scale: i32, sink: f64) -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            let registered = register_font(FAMILY, FontStyle::Normal, shapewise_data::FONT);
            assert!(registered.is_ok(), "a test draws with the embedded font");
        });
        let width = root.dim_in_pixel().0 as i32 / scale;
        Self {
            root,
            scale,
            width,
            sink,
        }
    }

    pub(super) fn chart(&self, chart: &Chart) -> Done {
        self.root.fill(&WHITE)?;
        self.heading(&chart.title, 30, 24, INK)?;
        let mut y = 58;
        for line in chart.subtitle.lines() {
            self.heading(line, y, 14, QUIET)?;
            y += 20;
        }
        let header = self.legend(chart, y + 8)? + 16;
        self.plot(chart, header)
    }

    /// One line of text, as large as fits.
    fn heading(&self, text: &str, y: i32, size: i32, colour: RGBColor) -> Done {
        let room = self.width - 40;
        let width = self.width(text, size)?.max(1);
        let size = (size * room / width).clamp(9, size);
        self.text(text, (20, y), size, colour)
    }

    fn style(&self, size: i32, colour: RGBColor) -> TextStyle<'static> {
        // plotters takes the height of a line, which is 1.24 times the size that typographers mean.
        let height = f64::from(size * self.scale) * 1.24;
        let font = (FAMILY, height).into_font().color(&colour);
        font.pos(Pos::new(HPos::Left, VPos::Center))
    }

    /// How far texts of this size have to be lowered, in pixels of the area.
    fn lower(&self, size: i32) -> i32 {
        (f64::from(size * self.scale) * self.sink).round() as i32
    }

    /// The width of a text in pixels of the final picture.
    pub(super) fn width(&self, text: &str, size: i32) -> Result<i32, Fails> {
        let style = self.style(size, INK);
        let (width, _) = self.root.estimate_text_size(text, &style)?;
        Ok(width as i32 / self.scale)
    }

    pub(super) fn text(&self, text: &str, at: (i32, i32), size: i32, colour: RGBColor) -> Done {
        let style = self.style(size, colour);
        let at = (at.0 * self.scale, at.1 * self.scale + self.lower(size));
        Ok(self.root.draw(&Text::new(text, at, style))?)
    }

    /// A thin vertical line, coloured where it is to be seen first.
    pub(super) fn upright(&self, ends: Vec<(i32, i32)>, strong: bool) -> Done {
        let colour = if strong { STRONG } else { FAINT };
        let style = colour.stroke_width(self.scale as u32);
        Ok(self.root.draw(&PathElement::new(ends, style))?)
    }

    fn plot(&self, chart: &Chart, top: i32) -> Done {
        let labelled = chart.points.iter().any(|series| !series.labels.is_empty());
        let x = Scale::new(
            &chart.x,
            x_values(chart),
            12.0 * f64::from(self.width) / f64::from(WIDTH),
            if labelled { 0.06 } else { 0.0 },
        );
        let marked = chart.marks.iter().any(|marks| marks.strong);
        let y = Scale::new(&chart.y, y_values(chart), 9.0, if marked { 0.07 } else { 0.0 });
        let area = self
            .root
            .margin(top * self.scale, 12 * self.scale, 16 * self.scale, 26 * self.scale);
        let mut context = ChartBuilder::on(&area)
            .x_label_area_size(50 * self.scale)
            .y_label_area_size(82 * self.scale)
            .build_cartesian_2d(x.clone(), y.clone())?;
        context
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(QUIET)
            .y_label_offset(self.lower(13))
            .label_style(self.style(13, INK))
            .axis_desc_style(self.style(15, INK))
            .x_desc(title(&chart.x))
            .y_desc(title(&chart.y))
            .x_label_formatter(&|at| x.number(*at))
            .y_label_formatter(&|at| y.number(*at))
            .draw()?;
        let (across, down) = context.plotting_area().get_pixel_range();
        // Everything else is drawn on the root, in its pixels.
        let spot = |(at, value): (f64, f64)| context.backend_coord(&(x.place(at), y.place(value)));
        let column = |at: f64| spot((at, 1.0)).0;

        for marks in &chart.marks {
            self.marks(marks, &column, (down.start, down.end))?;
        }
        if let Some(band) = &chart.band {
            let upper = band.points.iter().map(|(x, _, high)| spot((*x, *high)));
            let lower = band.points.iter().map(|(x, low, _)| spot((*x, *low))).rev();
            let outline: Vec<_> = upper.chain(lower).collect();
            self.root.draw(&Polygon::new(outline, colour(0).mix(0.2).filled()))?;
        }
        for (at, line) in chart.lines.iter().enumerate() {
            let path: Vec<_> = line.points.iter().map(|point| spot(*point)).collect();
            let style = colour(at).stroke_width(2 * self.scale as u32);
            self.root.draw(&PathElement::new(path, style))?;
        }
        for (at, series) in chart.points.iter().enumerate() {
            let filled = colour(place_of_points(chart, at)).filled();
            let radius: i32 = if series.points.len() > 150 { 3 } else { 4 };
            let areas = chart.areas.get(at).map_or(&[][..], Vec::as_slice);
            for (place, point) in series.points.iter().enumerate() {
                let grown = areas.get(place).map_or(0.0, |share| LARGEST_DOT * share.sqrt());
                let radius = f64::from(radius).max(grown).round() as i32;
                let circle = Circle::new(spot(*point), radius * self.scale, filled);
                self.root.draw(&circle)?;
            }
        }
        let inside = [across.start, down.start, across.end, down.end];
        let inside = inside.map(|pixels| pixels / self.scale);
        self.labels(&chart.lines, &chart.points, inside, &spot)
    }

    /// Vertical lines with their labels at the head, as far as these do not overlap.
    fn marks(&self, marks: &Marks, column: &dyn Fn(f64) -> i32, (top, end): (i32, i32)) -> Done {
        let mut free = i32::MIN;
        for mark in &marks.at {
            let x = column(mark.x);
            self.upright(vec![(x, top), (x, end)], marks.strong)?;
            if !mark.label.is_empty() && x > free {
                let at = (x / self.scale + 4, top / self.scale + 12);
                self.text(&mark.label, at, 12, STRONG)?;
                free = x + (self.width(&mark.label, 12)? + 10) * self.scale;
            }
        }
        Ok(())
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, position: &f64, (start, end): (i32, i32)) -> i32 {
        let share = (position - self.range.start) / (self.range.end - self.range.start);
        // What has no place on the axis, such as zero on a logarithmic one, stays near the picture.
        start + (share.clamp(-2.0, 3.0) * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// `rate (TFLOP/s)`.
fn title(axis: &Axis) -> String {
    if axis.unit.is_empty() {
        axis.label.clone()
    } else {
        format!("{} ({})", axis.label, axis.unit)
    }
}

/// The colour of a series; points take those that follow the lines.
pub(super) const fn colour(at: usize) -> RGBColor {
    COLOURS[at % COLOURS.len()]
}

/// Which colour a series of points takes: that of its line where every one of several lines has points, else one of its own.
pub(super) const fn place_of_points(chart: &Chart, at: usize) -> usize {
    if chart.lines.len() > 1 && chart.lines.len() == chart.points.len() {
        at
    } else {
        chart.lines.len() + at
    }
}

/// Every horizontal value of lines and points.
fn x_values(chart: &Chart) -> impl Iterator<Item = f64> {
    let series = chart.lines.iter().chain(&chart.points);
    series.flat_map(|series| series.points.iter().map(|(x, _)| *x))
}

/// Every vertical value of lines, points and band.
fn y_values(chart: &Chart) -> impl Iterator<Item = f64> {
    let series = chart.lines.iter().chain(&chart.points);
    let band = chart.band.iter().flat_map(|band| &band.points);
    series
        .flat_map(|series| series.points.iter().map(|(_, y)| *y))
        .chain(band.flat_map(|(_, low, high)| [*low, *high]))
}
