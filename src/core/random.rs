//! Random numbers and hashes that are equal on every machine: plans, operands, splits, nets and digests follow from them.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own for each seed and purpose.
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self(mix(seed ^ fnv1a(purpose.as_bytes())))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let bits = scramble(self.0);
        self.0 = self.0.wrapping_add(STEP);
        bits
    }

    /// Uniform over the open interval from 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform over the whole numbers below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.uniform() * end as f64) as usize).min(end - 1)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// The standard normal distribution (Box and Muller, 1958).
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
        let end = end.max(1) as usize;
        (0..count).map(|_| self.below(end) as f32).collect()
    }

    /// The numbers below `count` in random order.
    pub fn permutation(&mut self, count: u64) -> Vec<f32> {
        let mut order: Vec<f32> = (0..count).map(|row| row as f32).collect();
        self.shuffle(&mut order);
        order
    }

    /// Every order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One step of SplitMix64 from this state: close words give unrelated ones.
pub const fn scramble(word: u64) -> u64 {
    mix(word.wrapping_add(STEP))
}

const fn mix(word: u64) -> u64 {
    let mut z = word;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a over 64 bits, for names and digests.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |state, &byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_purpose_give_one_stream() {
        let draw = |seed, purpose| Random::new(seed, purpose).bits();
        assert_eq!(draw(1, "order"), draw(1, "order"));
        assert_ne!(draw(1, "order"), draw(2, "order"));
        assert_ne!(draw(1, "order"), draw(1, "shapes"));
        let mut random = Random::new(0, "moments");
        let values: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / 20_000.0;
        let square = values.iter().map(|value| value * value).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean} {square}");
        let mut order: Vec<usize> = (0..100).collect();
        random.shuffle(&mut order);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(order != sorted && sorted == (0..100).collect::<Vec<_>>());
    }
}
