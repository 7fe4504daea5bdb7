//! Where formulas write features to: a row of numbers in the hot loop, or a description of the definition.

use std::fmt;
use std::io::Write;

/// Bins of the piecewise-linear encoding of a size: bin `i` rises from 0 to 1 over `[2^i, 2^(i+1)]`.
///
/// The bins let a small rectifier net bend at each power of two, where libraries switch kernels;
/// piecewise-linear encoding as in Gorishniy et al., arXiv 2203.05556.
pub(super) const BINS: usize = 16;

/// The largest exponent of a power of two that counts for tiles: 128 elements are a whole tile edge.
pub(super) const TILE_EDGE: u32 = 7;

/// Takes one feature after the other, each with its name beside its formula.
pub(super) trait FeatureRow {
    /// A number as it is.
    fn number(&mut self, name: &str, value: f64);

    /// The natural logarithm of a positive number.
    fn log(&mut self, name: &str, value: f64);

    /// The piecewise-linear encoding of a size.
    fn bins(&mut self, name: &str, size: f64);

    /// The exponent of the power of two that divides a size, at most `largest`.
    fn power_of_two(&mut self, name: &str, size: u64, largest: u32);

    /// What follows is of this tile.
    fn tile(&mut self, tile: fmt::Arguments<'_>);

    /// Whether something holds.
    #[inline]
    fn flag(&mut self, name: &str, holds: bool) {
        self.number(name, f64::from(u8::from(holds)));
    }
}

/// The most features of a family.
const MOST: usize = 128;

/// Logarithms that are taken together; compilers unroll a shorter loop and find no vectors in it.
const LANES: usize = 16;

/// The numbers of a row and what is still to be done with them.
pub(super) struct Places {
    values: [f32; MOST],
    /// All bits where the logarithm of the value is to be taken, else none: a mask, since compilers make a choice a branch.
    logs: [u32; MOST],
}

impl Places {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self {
            values: [0.0; MOST],
            logs: [0; MOST],
        }
    }
}

/// Writes a row for a net.
///
/// Logarithms are taken at the end, many at a time; until then their arguments are in the places of the row. The places are
/// not its own, so that compilers keep the next one in a register.
pub(super) struct Numbers<'a> {
    places: &'a mut Places,
    next: usize,
}

impl<'a> Numbers<'a> {
    #[inline(always)]
    pub(super) const fn new(places: &'a mut Places) -> Self {
        Self { places, next: 0 }
    }

    /// Takes the logarithms and copies the row into `out`.
    ///
    /// # Panics
    /// When `out` is not as long as the row.
    #[inline(always)] // into a function that is compiled for vectors
    pub(super) fn finish(self, out: &mut [f32]) {
        assert_eq!(self.next, out.len(), "one value per feature name");
        let Places { values, logs } = self.places;
        let chunks = values.as_chunks_mut::<LANES>().0.iter_mut();
        for (chunk, &logs) in chunks.zip(logs.as_chunks::<LANES>().0) {
            if logs != [0; LANES] {
                for (value, mask) in chunk.iter_mut().zip(logs) {
                    let [bits, log] = [*value, ln(*value)].map(f32::to_bits);
                    *value = f32::from_bits(bits & !mask | log & mask);
                }
            }
        }
        out.copy_from_slice(&values[..out.len()]);
    }

    #[inline(always)] // so that the place is known when the program is compiled
    fn push(&mut self, value: f32) {
        self.places.values[self.next] = value;
        self.next += 1;
    }
}

impl FeatureRow for Numbers<'_> {
    #[inline(always)]
    fn number(&mut self, _: &str, value: f64) {
        self.push(value as f32);
    }

    #[inline(always)]
    fn log(&mut self, _: &str, value: f64) {
        self.places.logs[self.next] = u32::MAX;
        self.push(value as f32);
    }

    #[inline(always)]
    fn bins(&mut self, _: &str, size: f64) {
        let height = (size as f32).log2();
        let bins = &mut self.places.values[self.next..][..BINS];
        for (bin, share) in bins.iter_mut().enumerate() {
            *share = (height - bin as f32).clamp(0.0, 1.0);
        }
        self.next += BINS;
    }

    #[inline(always)]
    fn power_of_two(&mut self, _: &str, size: u64, largest: u32) {
        self.push(size.trailing_zeros().min(largest) as f32);
    }

    #[inline(always)]
    fn tile(&mut self, _: fmt::Arguments<'_>) {}
}

/// The natural logarithm of a positive, normal number, within 2 units in the last place, without a call or a branch so that
/// compilers turn many of them into vectors; the polynomial is that of `logf` in Cephes.
#[inline]
fn ln(number: f32) -> f32 {
    const ROOT_OF_HALF: i32 = 0x3f35_04f3;
    let exponent = ((number.to_bits() as i32).wrapping_sub(ROOT_OF_HALF)) >> 23;
    let mantissa = f32::from_bits((number.to_bits() as i32).wrapping_sub(exponent << 23) as u32);
    let (x, exponent) = (mantissa - 1.0, exponent as f32);
    let mut sum = 0.070_376_836;
    for coefficient in [
        -0.115_146_1,
        0.116_769_99,
        -0.124_201_41,
        0.142_493_23,
        -0.166_680_58,
        0.200_007_14,
        -0.249_999_94,
        0.333_333_3,
    ] {
        sum = sum * x + coefficient;
    }
    let rest = sum * x * x * x - 2.121_944_4e-4 * exponent - 0.5 * x * x;
    x + rest + 0.693_359_4 * exponent
}

/// The value of a feature for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Anything but the two below.
    Plain,
    /// The power of two that divides a size.
    Alignment,
    /// How the operator falls into tiles.
    Tile,
}

/// A name and its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name, unique in the family.
    pub name: String,
    /// What it is about.
    pub role: Role,
}

/// Collects the names of features, and what they were computed from as bytes to be hashed.
///
/// The arguments of logarithms are hashed, not logarithms: they follow from IEEE 754 arithmetic alone and so are
/// equal on every machine, which logarithms are not.
#[derive(Default)]
pub(super) struct Description {
    pub(super) features: Vec<Feature>,
    pub(super) bytes: Vec<u8>,
    tile: Option<String>,
    /// Operators that were begun; the first one names the features of all.
    operators: usize,
}

impl Description {
    fn add(&mut self, name: fmt::Arguments<'_>, role: Role, kind: u8, value: f64) {
        let start = self.bytes.len();
        let written = match &self.tile {
            Some(tile) => write!(self.bytes, "{name}_{tile}"),
            None => write!(self.bytes, "{name}"),
        };
        written.expect("memory takes every byte");
        if self.operators == 1 {
            let name = String::from_utf8_lossy(&self.bytes[start..]).into_owned();
            let role = self.tile.as_ref().map_or(role, |_| Role::Tile);
            self.features.push(Feature { name, role });
        }
        self.bytes.push(kind);
        self.value(value);
    }

    /// Hashes a value to four significant digits: 13 bits of the fraction, rounded.
    pub(super) fn value(&mut self, value: f64) {
        const DROPPED: u32 = 52 - 13;
        let rounded = ((value + 0.0).to_bits() + (1 << (DROPPED - 1))) >> DROPPED;
        self.bytes.extend_from_slice(&rounded.to_le_bytes());
    }

    /// Begins an operator.
    pub(super) fn begin(&mut self) {
        self.operators += 1;
        self.tile = None;
    }
}

impl FeatureRow for Description {
    fn number(&mut self, name: &str, value: f64) {
        self.add(format_args!("{name}"), Role::Plain, b'=', value);
    }

    fn log(&mut self, name: &str, value: f64) {
        self.add(format_args!("{name}"), Role::Plain, b'l', value);
    }

    fn bins(&mut self, name: &str, size: f64) {
        for bin in 0..BINS {
            self.add(format_args!("bin_{name}_{bin}"), Role::Plain, b'b', size);
        }
    }

    fn power_of_two(&mut self, name: &str, size: u64, largest: u32) {
        let power = size.trailing_zeros().min(largest);
        self.add(
            format_args!("power_of_two_{name}"),
            Role::Alignment,
            b'2',
            f64::from(power),
        );
    }

    fn tile(&mut self, tile: fmt::Arguments<'_>) {
        self.tile = Some(tile.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hashed_to_four_digits() {
        let bytes = |value: f64| {
            let mut description = Description::default();
            description.value(value);
            description.bytes
        };
        assert_eq!(bytes(1.0), bytes(1.0 + 1e-9));
        assert_eq!(bytes(0.0), bytes(-0.0));
        for value in [1.0, 0.37, 1e-6, 5e9] {
            assert_ne!(bytes(value), bytes(1.0003 * value));
        }
    }

    #[test]
    fn logarithms_are_those_of_the_library() {
        for step in 0..20_000 {
            let number = (-80.0 + f64::from(step) * 0.008).exp() as f32;
            let exact = f64::from(number).ln();
            let apart = (f64::from(ln(number)) - exact).abs();
            assert!(apart <= 1.5e-7 * exact.abs().max(1e-3), "{number}: {apart}");
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn bins_rise_from_one_power_of_two_to_the_next() {
        let mut out = [0.0; BINS];
        let mut places = Places::new();
        let mut row = Numbers::new(&mut places);
        row.bins("m", 12.0);
        row.finish(&mut out);
        assert_eq!(out[..3], [1.0; 3]);
        assert!((out[3] - (12.0f32 / 8.0).log2()).abs() < 1e-6 && out[4..] == [0.0; 12]);
    }
}
