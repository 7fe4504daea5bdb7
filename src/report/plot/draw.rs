//! Drawing with plotters: a header of our own, then axes, band, marks, lines and points.

use crate::report::plot::Axis;
use crate::report::plot::Chart;
use crate::report::plot::Marks;
use crate::report::plot::Series;
use crate::report::plot::scale::Scale;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{BitMapBackend, ChartBuilder, Color, DrawingArea};
use plotters::prelude::{DrawingBackend, IntoDrawingArea, IntoFont, RGBColor, SVGBackend};
use plotters::prelude::{TRANSPARENT, TextStyle, WHITE};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};
use std::error::Error;
use std::ops::Range;
use std::sync::Once;

const WIDTH: i32 = 1200;
const HEIGHT: i32 = 700;
const FAMILY: &str = "sans-serif";

/// Pixels are averaged over this many in each direction.
const FINER: u32 = 2;

const INK: RGBColor = RGBColor(34, 34, 34);
const QUIET: RGBColor = RGBColor(95, 95, 95);
const GRID: RGBColor = RGBColor(232, 232, 232);
const FAINT: RGBColor = RGBColor(208, 208, 208);
const STRONG: RGBColor = RGBColor(213, 94, 0);

/// Okabe and Ito's colours, which colour-blind readers tell apart; the orange red of the marks is left out.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(0, 0, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Widths are measured with this font, and PNGs are written in it; viewers of SVGs take their own.
static FONT: &[u8] = include_bytes!("../../../data/fonts/DejaVuSans-subset.ttf");

type Fails = Box<dyn Error + Send + Sync>;
type Done = Result<(), Fails>;

/// The chart as a scalable picture.
pub(super) fn svg(chart: &Chart) -> Result<Vec<u8>, Fails> {
    let mut text = String::new();
    let size = (WIDTH as u32, HEIGHT as u32);
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    Canvas::new(&root, 1).chart(chart)?;
    root.present()?;
    drop(root);
    Ok(text.into_bytes())
}

/// The chart in pixels: drawn finer, then averaged, so that lines and letters have smooth edges.
pub(super) fn png(chart: &Chart) -> Result<Vec<u8>, Fails> {
    let size @ (width, height) = (WIDTH as u32 * FINER, HEIGHT as u32 * FINER);
    let mut fine = vec![0; (width * height * 3) as usize];
    let root = BitMapBackend::with_buffer(&mut fine, size).into_drawing_area();
    Canvas::new(&root, FINER as i32).chart(chart)?;
    root.present()?;
    drop(root);
    let pixels = averaged(&fine, width as usize, FINER as usize);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// The mean of each square of `by` times `by` pixels.
fn averaged(fine: &[u8], width: usize, by: usize) -> Vec<u8> {
    let rows = fine.chunks(width * 3 * by);
    let mut pixels = Vec::with_capacity(fine.len() / (by * by));
    for rows in rows {
        for column in 0..width / by {
            for channel in 0..3 {
                let places = (0..by * by).map(|at| {
                    let (row, inside) = (at / by, column * by + at % by);
                    usize::from(rows[(row * width + inside) * 3 + channel])
                });
                pixels.push((places.sum::<usize>() / (by * by)) as u8);
            }
        }
    }
    pixels
}

/// A drawing area whose sizes are given in pixels of the final picture.
struct Canvas<'a, DB: DrawingBackend> {
    root: &'a DrawingArea<DB, Shift>,
    scale: i32,
}

/// The sample of one entry of the legend.
enum Sample {
    Band(RGBColor),
    Line(RGBColor),
    Point(RGBColor),
    Marks(bool),
}

impl<'a, DB: DrawingBackend + 'a> Canvas<'a, DB>
where
    DB::ErrorType: 'static,
{
    fn new(root: &'a DrawingArea<DB, Shift>, scale: i32) -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            let registered = register_font(FAMILY, FontStyle::Normal, FONT);
            assert!(registered.is_ok(), "a test draws with the embedded font");
        });
        Self { root, scale }
    }

    fn chart(&self, chart: &Chart) -> Done {
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
        let room = WIDTH - 40;
        let width = self.width(text, size)?.max(1);
        let size = (size * room / width).clamp(9, size);
        self.text(text, (20, y), size, colour, HPos::Left)
    }

    fn style(&self, size: i32, colour: RGBColor, side: HPos) -> TextStyle<'static> {
        // plotters takes the height of a line, which is 1.24 times the size that typographers mean.
        let height = f64::from(size * self.scale) * 1.24;
        let font = (FAMILY, height).into_font().color(&colour);
        font.pos(Pos::new(side, VPos::Center))
    }

    /// The width of a text in pixels of the final picture.
    fn width(&self, text: &str, size: i32) -> Result<i32, Fails> {
        let style = self.style(size, INK, HPos::Left);
        let (width, _) = self.root.estimate_text_size(text, &style)?;
        Ok(width as i32 / self.scale)
    }

    fn text(&self, text: &str, at: (i32, i32), size: i32, colour: RGBColor, side: HPos) -> Done {
        let style = self.style(size, colour, side);
        let at = (at.0 * self.scale, at.1 * self.scale);
        Ok(self.root.draw(&Text::new(text, at, style))?)
    }

    /// Draws the legend from this height on and returns the height of its last row.
    fn legend(&self, chart: &Chart, top: i32) -> Result<i32, Fails> {
        let band = chart.band.iter();
        let lines = chart.lines.iter().enumerate();
        let points = chart.points.iter().enumerate();
        let entries =
            (band.map(|band| (&band.name, Sample::Band(COLOURS[0]))))
                .chain(lines.map(|(at, line)| (&line.name, Sample::Line(colour(at)))))
                .chain(points.map(|(at, points)| {
                    (&points.name, Sample::Point(colour(chart.lines.len() + at)))
                }))
                .chain(
                    chart
                        .marks
                        .iter()
                        .map(|marks| (&marks.name, Sample::Marks(marks.strong))),
                );
        let (mut x, mut y) = (20, top);
        for (name, sample) in entries {
            let width = 34 + self.width(name, 14)? + 26;
            if x + width > WIDTH && x > 20 {
                (x, y) = (20, y + 22);
            }
            self.sample(&sample, x, y)?;
            self.text(name, (x + 34, y), 14, INK, HPos::Left)?;
            x += width;
        }
        Ok(y)
    }

    fn sample(&self, sample: &Sample, x: i32, y: i32) -> Done {
        let scaled = |x: i32, y: i32| (x * self.scale, y * self.scale);
        let ends = vec![scaled(x, y), scaled(x + 26, y)];
        let thick = 2 * self.scale as u32;
        match sample {
            Sample::Band(colour) => {
                let corners = [scaled(x, y - 6), scaled(x + 26, y + 6)];
                self.root
                    .draw(&Rectangle::new(corners, colour.mix(0.2).filled()))?;
            }
            Sample::Line(colour) => {
                self.root
                    .draw(&PathElement::new(ends, colour.stroke_width(thick)))?;
            }
            Sample::Point(colour) => {
                let circle = Circle::new(scaled(x + 13, y), 4 * self.scale, colour.filled());
                self.root.draw(&circle)?;
            }
            Sample::Marks(strong) => {
                let upright = vec![scaled(x + 13, y - 8), scaled(x + 13, y + 8)];
                self.upright(upright, *strong)?;
            }
        }
        Ok(())
    }

    /// A thin vertical line, coloured where it is to be seen first.
    fn upright(&self, ends: Vec<(i32, i32)>, strong: bool) -> Done {
        let colour = if strong { STRONG } else { FAINT };
        let style = colour.stroke_width(self.scale as u32);
        Ok(self.root.draw(&PathElement::new(ends, style))?)
    }

    fn plot(&self, chart: &Chart, top: i32) -> Done {
        let labelled = chart.points.iter().any(|series| !series.labels.is_empty());
        let x = Scale::new(
            &chart.x,
            x_values(chart),
            12.0,
            if labelled { 0.06 } else { 0.0 },
        );
        let marked = chart.marks.iter().any(|marks| marks.strong);
        let y = Scale::new(
            &chart.y,
            y_values(chart),
            9.0,
            if marked { 0.07 } else { 0.0 },
        );
        let area = self.root.margin(
            top * self.scale,
            12 * self.scale,
            16 * self.scale,
            26 * self.scale,
        );
        let mut context = ChartBuilder::on(&area)
            .x_label_area_size(50 * self.scale)
            .y_label_area_size(82 * self.scale)
            .build_cartesian_2d(x.clone(), y.clone())?;
        context
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(QUIET)
            .label_style(self.style(13, INK, HPos::Left))
            .axis_desc_style(self.style(15, INK, HPos::Left))
            .x_desc(title(&chart.x))
            .y_desc(title(&chart.y))
            .x_label_formatter(&|at| x.number(*at))
            .y_label_formatter(&|at| y.number(*at))
            .draw()?;
        let (_, down) = context.plotting_area().get_pixel_range();
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
            self.root
                .draw(&Polygon::new(outline, COLOURS[0].mix(0.2).filled()))?;
        }
        for (at, line) in chart.lines.iter().enumerate() {
            let path: Vec<_> = line.points.iter().map(|point| spot(*point)).collect();
            let style = colour(at).stroke_width(2 * self.scale as u32);
            self.root.draw(&PathElement::new(path, style))?;
        }
        for (at, series) in chart.points.iter().enumerate() {
            let filled = colour(chart.lines.len() + at).filled();
            let radius = if series.points.len() > 150 { 3 } else { 4 };
            for point in &series.points {
                let circle = Circle::new(spot(*point), radius * self.scale, filled);
                self.root.draw(&circle)?;
            }
        }
        let taken = chart.points.iter().flat_map(|series| &series.points);
        self.labels(
            &chart.points,
            taken.map(|point| spot(*point)).collect(),
            &spot,
        )
    }

    /// Vertical lines with their labels at the head, as far as these do not overlap.
    fn marks(&self, marks: &Marks, column: &dyn Fn(f64) -> i32, (top, end): (i32, i32)) -> Done {
        let mut free = i32::MIN;
        for mark in &marks.at {
            let x = column(mark.x);
            self.upright(vec![(x, top), (x, end)], marks.strong)?;
            if !mark.label.is_empty() && x > free {
                let at = (x / self.scale + 4, top / self.scale + 12);
                self.text(&mark.label, at, 12, STRONG, HPos::Left)?;
                free = x + (self.width(&mark.label, 12)? + 10) * self.scale;
            }
        }
        Ok(())
    }

    /// The texts beside points, each on the first side where it covers neither points nor other texts.
    fn labels(
        &self,
        all: &[Series],
        points: Vec<(i32, i32)>,
        spot: &dyn Fn((f64, f64)) -> (i32, i32),
    ) -> Done {
        let mut taken: Vec<[i32; 4]> = points
            .iter()
            .map(|(x, y)| {
                let (x, y) = (x / self.scale, y / self.scale);
                [x - 5, y - 5, x + 5, y + 5]
            })
            .collect();
        for series in all {
            for (point, label) in series.points.iter().zip(&series.labels) {
                if label.is_empty() {
                    continue;
                }
                let (x, y) = spot(*point);
                let (x, y) = (x / self.scale, y / self.scale);
                let width = self.width(label, 12)?;
                let sides = [
                    (x + 9, y),
                    (x - 9 - width, y),
                    (x - width / 2, y - 15),
                    (x - width / 2, y + 15),
                    (x + 9, y - 13),
                    (x + 9, y + 13),
                ];
                let boxed = |(x, y): (i32, i32)| [x, y - 7, x + width, y + 7];
                let free = sides.into_iter().find(|side| {
                    let own = boxed(*side);
                    own[2] < WIDTH - 4 && taken.iter().all(|other| !overlap(own, *other))
                });
                let at = free.unwrap_or(sides[0]);
                taken.push(boxed(at));
                self.text(label, at, 12, INK, HPos::Left)?;
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
const fn colour(at: usize) -> RGBColor {
    COLOURS[at % COLOURS.len()]
}

fn overlap(a: [i32; 4], b: [i32; 4]) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
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
