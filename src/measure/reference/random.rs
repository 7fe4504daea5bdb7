//! Random numbers that are the same on every machine.

/// A generator of 64-bit numbers (splitmix64, Steele et al. 2014), good enough for operands.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Equal seeds give equal numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform above 0 and up to 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// Normal with mean 0 and variance 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// That many normals.
    pub fn normals(&mut self, count: u64) -> Vec<f32> {
        (0..count).map(|_| self.normal() as f32).collect()
    }

    /// That many whole numbers below `end`.
    pub fn indices(&mut self, count: u64, end: u64) -> Vec<f32> {
        (0..count).map(|_| self.below(end) as f32).collect()
    }

    /// The numbers below `count` in random order.
    pub fn permutation(&mut self, count: u64) -> Vec<f32> {
        let mut order: Vec<f32> = (0..count).map(|row| row as f32).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.below(last as u64 + 1) as usize);
        }
        order
    }
}
