//! The legend above a plot.

use crate::report::plot::Chart;
use crate::report::plot::draw::{Canvas, Done, Fails, INK, colour, place_of_points};
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::prelude::{Color, DrawingBackend, RGBColor};

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
    /// Draws the legend from this height on and returns the height of its last row.
    pub(super) fn legend(&self, chart: &Chart, top: i32) -> Result<i32, Fails> {
        let band = chart.band.iter();
        let lines = chart.lines.iter().enumerate();
        let points = chart.points.iter().enumerate();
        let entries = (band.map(|band| (&band.name, Sample::Band(colour(0)))))
            .chain(lines.map(|(at, line)| (&line.name, Sample::Line(colour(at)))))
            .chain(points.map(|(at, points)| (&points.name, Sample::Point(colour(place_of_points(chart, at))))))
            .chain(
                chart
                    .marks
                    .iter()
                    .map(|marks| (&marks.name, Sample::Marks(marks.strong))),
            );
        let (mut x, mut y) = (20, top);
        for (name, sample) in entries {
            let width = 34 + self.width(name, 14)? + 26;
            if x + width > self.width && x > 20 {
                (x, y) = (20, y + 22);
            }
            self.sample(&sample, x, y)?;
            self.text(name, (x + 34, y), 14, INK)?;
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
                self.root.draw(&Rectangle::new(corners, colour.mix(0.2).filled()))?;
            }
            Sample::Line(colour) => {
                self.root.draw(&PathElement::new(ends, colour.stroke_width(thick)))?;
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
}
