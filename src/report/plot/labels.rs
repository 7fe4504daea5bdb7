//! Texts beside points, placed so that they cover nothing if possible.

use crate::report::plot::Series;
use crate::report::plot::draw::{Canvas, Done, INK};
use plotters::prelude::DrawingBackend;

/// The size of the texts.
const SIZE: i32 = 12;

/// Left, top, right and bottom, in pixels of the final picture.
pub(super) type Bounds = [i32; 4];

impl<'a, DB: DrawingBackend + 'a> Canvas<'a, DB>
where
    DB::ErrorType: 'static,
{
    /// Writes each text on the first side of its point where it stays inside and covers neither points nor texts, and
    /// no line either where some side is off the lines.
    pub(super) fn labels(
        &self,
        lines: &[Series],
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
        let crossed: Vec<Bounds> = lines
            .iter()
            .flat_map(|line| line.points.windows(2))
            .flat_map(|ends| along(spot(&ends[0]), spot(&ends[1])))
            .collect();
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
                let free_of = |own: Bounds, others: &[Bounds]| others.iter().all(|other| !overlap(own, *other));
                let free = |side: &&(i32, i32)| within(bounds(**side), inside) && free_of(bounds(**side), &taken);
                let clear = sides.iter().filter(free);
                let mut clear = clear.filter(|side| free_of(bounds(**side), &crossed));
                let at = clear.next().or_else(|| sides.iter().find(free));
                let at = *at.unwrap_or(&sides[0]);
                taken.push(bounds(at));
                self.text(label, at, SIZE, INK)?;
            }
        }
        Ok(())
    }
}

/// Small squares along a line from one end to the other.
fn along(from: (i32, i32), to: (i32, i32)) -> impl Iterator<Item = Bounds> {
    let (right, down) = (to.0 - from.0, to.1 - from.1);
    let steps = (right.abs().max(down.abs()) / 3).max(1);
    (0..=steps).map(move |step| {
        let (x, y) = (from.0 + right * step / steps, from.1 + down * step / steps);
        [x - 2, y - 2, x + 2, y + 2]
    })
}

fn within(own: Bounds, outer: Bounds) -> bool {
    outer[0] <= own[0] && outer[1] <= own[1] && own[2] <= outer[2] && own[3] <= outer[3]
}

fn overlap(a: Bounds, b: Bounds) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_from_end_to_end() {
        let squares: Vec<_> = along((0, 30), (60, 0)).collect();
        assert_eq!(
            (squares[0], squares[squares.len() - 1]),
            ([-2, 28, 2, 32], [58, -2, 62, 2])
        );
        // A text on it is crossed, one beside it is not.
        let crossed = |own| squares.iter().any(|square| overlap(own, *square));
        assert!(crossed([25, 10, 50, 24]) && !crossed([0, 0, 20, 14]));
        assert_eq!(along((5, 5), (5, 5)).count(), 2);
    }
}
