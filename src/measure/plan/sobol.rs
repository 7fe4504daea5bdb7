//! Sobol sequence: low-discrepancy points, evenly spread in every prefix.
//!
//! Direction numbers of Joe and Kuo (new-joe-kuo-6.21201), with a random digital shift per seed.

use crate::random::Random;

/// Dimensions with direction numbers.
pub const DIMENSIONS: usize = 7;

const BITS: usize = 32;

/// Degree, coefficients and first direction numbers of dimensions 2 to 7.
const PRIMITIVES: [(usize, u32, &[u32]); DIMENSIONS - 1] = [
    (1, 0, &[1]),
    (2, 1, &[1, 3]),
    (3, 1, &[1, 3, 1]),
    (3, 2, &[1, 1, 1]),
    (4, 1, &[1, 1, 3, 3]),
    (4, 4, &[1, 3, 5, 13]),
];

/// The sequence, of 2^32 points.
#[derive(Clone, Debug)]
pub struct Sobol {
    directions: [[u32; BITS]; DIMENSIONS],
    shift: [u32; DIMENSIONS],
    point: [u32; DIMENSIONS],
    index: u32,
}

impl Sobol {
    /// The sequence of a seed and purpose.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut directions = [[0; BITS]; DIMENSIONS];
        for (bit, direction) in directions[0].iter_mut().enumerate() {
            *direction = 1 << (BITS - 1 - bit);
        }
        for (direction, (degree, coefficients, first)) in directions[1..].iter_mut().zip(PRIMITIVES) {
            for bit in 0..BITS {
                direction[bit] = match bit < degree {
                    true => first[bit] << (BITS - 1 - bit),
                    false => {
                        let before = direction[bit - degree];
                        let mut next = before ^ (before >> degree);
                        for term in 1..degree {
                            if (coefficients >> (degree - 1 - term)) & 1 == 1 {
                                next ^= direction[bit - term];
                            }
                        }
                        next
                    }
                };
            }
        }
        let mut random = Random::new(seed, purpose);
        Self {
            directions,
            shift: std::array::from_fn(|_| (random.bits() >> 32) as u32),
            point: [0; DIMENSIONS],
            index: 0,
        }
    }
}

impl Iterator for Sobol {
    type Item = [f64; DIMENSIONS];

    /// The next point of the open unit cube, in the order of the Gray code (Antonov and Saleev).
    fn next(&mut self) -> Option<Self::Item> {
        let point = std::array::from_fn(|dimension| {
            let shifted = self.point[dimension] ^ self.shift[dimension];
            (f64::from(shifted) + 0.5) / 2f64.powi(32)
        });
        let bit = self.index.trailing_ones() as usize % BITS;
        for (coordinate, direction) in self.point.iter_mut().zip(&self.directions) {
            *coordinate ^= direction[bit];
        }
        self.index = self.index.wrapping_add(1);
        Some(point)
    }
}

/// The value at `at`, from 0 to 1, on the logarithmic scale of a range.
pub fn log_between((least, most): (f64, f64), at: f64) -> f64 {
    (least.ln() + (most / least).ln() * at).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dyadic_interval_and_pair_of_them_is_filled_evenly() {
        let points: Vec<_> = Sobol::new(3, "test").take(1024).collect();
        for dimension in 0..DIMENSIONS {
            let mut counts = [0; 64];
            for point in &points {
                counts[(point[dimension] * 64.0) as usize] += 1;
            }
            assert_eq!(counts, [16; 64], "dimension {dimension}");
        }
        // The first two dimensions are a (0, 2)-sequence: one point in each of 1024 boxes of any
        // shape.
        for rows in [1, 4, 32, 256] {
            let columns = 1024 / rows;
            let mut boxes = vec![0; 1024];
            for point in &points {
                let row = (point[0] * rows as f64) as usize;
                boxes[row * columns + (point[1] * columns as f64) as usize] += 1;
            }
            assert!(boxes.iter().all(|&count| count == 1), "{rows} rows");
        }
    }
}
