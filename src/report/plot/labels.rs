//! Texts beside points, placed so that they cover nothing where that is possible.

use crate::report::plot::Series;
use crate::report::plot::draw::Canvas;
use crate::report::plot::draw::Done;
use crate::report::plot::draw::INK;
use plotters::prelude::DrawingBackend;

/// The size of the texts.
const SIZE: i32 = 12;

/// Left, top, right and bottom, in pixels of the final picture.
pub(super) type Bounds = [i32; 4];

impl<'a, DB: DrawingBackend + 'a> Canvas<'a, DB>
where
    DB::ErrorType: 'static,
{
    /// Writes each text on the first side of its point where it stays inside and covers neither points nor texts.
    pub(super) fn labels(
        &self,
        all: &[Series],
        inside: Bounds,
        spot: &dyn Fn((f64, f64)) -> (i32, i32),
    ) -> Done {
        let spot = |point: &(f64, f64)| {
            let (x, y) = spot(*point);
            (x / self.scale, y / self.scale)
        };
        let points = all.iter().flat_map(|series| &series.points).map(spot);
        let mut taken: Vec<Bounds> = points.map(|(x, y)| [x - 5, y - 5, x + 5, y + 5]).collect();
        for series in all {
            for (point, label) in series.points.iter().zip(&series.labels) {
                let (x, y) = spot(point);
                let width = self.width(label, SIZE)?;
                let sides = [
                    (x + 9, y),
                    (x - 9 - width, y),
                    (x - width / 2, y - 15),
                    (x - width / 2, y + 15),
                    (x + 9, y - 13),
                    (x + 9, y + 13),
                    (x - 9 - width, y - 13),
                    (x - 9 - width, y + 13),
                ];
                let bounds = |(x, y): (i32, i32)| [x, y - 7, x + width, y + 7];
                let free = sides.into_iter().find(|side| {
                    let own = bounds(*side);
                    within(own, inside) && taken.iter().all(|other| !overlap(own, *other))
                });
                let at = free.unwrap_or(sides[0]);
                taken.push(bounds(at));
                self.text(label, at, SIZE, INK)?;
            }
        }
        Ok(())
    }
}

fn within(own: Bounds, outer: Bounds) -> bool {
    outer[0] <= own[0] && outer[1] <= own[1] && own[2] <= outer[2] && own[3] <= outer[3]
}

fn overlap(a: Bounds, b: Bounds) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}
