//! One dense layer with a rectifier in whole numbers, for the vector instructions that the processor has.
//!
//! Weights are stored in 8 bits ([`Quantized`]). A row of inputs is rounded to 16 bits with a step of its own, so a sum of
//! products is a whole number of 32 bits: exact in any order, hence the same on every processor, and half as many instructions
//! as products of 32-bit floats take. Only the end of a layer, `sum · scale · step + bias`, is floating point.
//!
//! The weights lie in panels as wide as two vectors. A [`Tile`] multiplies a few rows with one panel
//! and holds all its sums in registers: each weight is loaded once for several rows, each pair of inputs once
//! for a whole panel. A panel fits the first-level cache and stays there while the rows of a block
//! pass by. Pairs of inputs that are 0 in all rows of a tile are left out, which changes no sum: of the units of the second
//! hidden layer of H200's GEMMs 9 in 10 are 0, of those of the first one half.
//!
//! One net of 118-128-128-128-2 on one core of an EPYC without AVX-512 takes 0.82 us a row of 64 and 1.6 us alone; the same
//! design with 32-bit floats took 1.44 and 2.3.
//!
//! There is one tile; [`Vector`] says what it needs of an instruction set. All `unsafe` code is here.

#![allow(unsafe_code)] // Vector instructions found at run time can be reached in no other way.

use crate::regressor::net::{Layer, Quantized, nearest};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Vectors side by side in a panel.
const VECTORS: usize = 2;

/// Instructions that a layer can be evaluated with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// Whatever the build targets.
    Portable,
    /// 256-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors with sums of products of 16-bit numbers (VNNI).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// Those that this processor has, fastest first.
    pub fn available() -> Vec<Self> {
        vec![
            #[cfg(target_arch = "x86_64")]
            Self::Avx512,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2,
            Self::Portable,
        ]
        .into_iter()
        .filter(|instructions| instructions.detected())
        .collect()
    }

    fn detected(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni")
            }
        }
    }

    fn panel_width(self) -> usize {
        VECTORS
            * match self {
                Self::Portable => <[i32; 4]>::LANES,
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => __m256i::LANES,
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => __m512i::LANES,
            }
    }
}

/// A hidden layer laid out for the processor.
#[derive(Clone, Debug)]
pub struct Dense {
    instructions: Instructions,
    inputs: usize,
    /// `[panel, pair of inputs, output of the panel, 2]`.
    weights: Vec<i16>,
    /// What one step of a weight is, `[output, of all panels]`.
    scales: Vec<f32>,
    /// `[output, of all panels]`.
    biases: Vec<f32>,
}

impl Dense {
    /// Packs `layer`, its weights rounded to 8 bits, filling the last pair and the last panel up with zeros.
    ///
    /// # Panics
    /// When this processor does not have `instructions`.
    pub fn new(layer: &Layer, instructions: Instructions) -> Self {
        assert!(instructions.detected(), "{instructions:?} on this machine");
        let width = instructions.panel_width();
        let outputs = layer.outputs.next_multiple_of(width);
        let Quantized { integers, scales } = Quantized::of(layer);
        let inputs = layer.inputs.next_multiple_of(2);
        let mut weights = vec![0; outputs * inputs];
        for (input, row) in integers.chunks_exact(layer.outputs).enumerate() {
            for (panel, row) in row.chunks(width).enumerate() {
                let (pair, half) = (panel * inputs / 2 + input / 2, input % 2);
                let places = weights[pair * 2 * width + half..].iter_mut().step_by(2);
                for (place, &weight) in places.zip(row) {
                    *place = i16::from(weight);
                }
            }
        }
        let filled = |mut numbers: Vec<f32>| {
            numbers.resize(outputs, 0.0);
            numbers
        };
        Self {
            instructions,
            inputs: layer.inputs,
            weights,
            scales: filled(scales),
            biases: filled(layer.bias.clone()),
        }
    }

    /// Width of a row of outputs: those of the layer, then zeros up to the end of the last panel.
    pub fn width(&self) -> usize {
        self.biases.len()
    }

    /// Writes `max(0, input · weights + bias)` into `output`, which it resizes, with inputs rounded to 16 bits.
    ///
    /// # Shapes
    /// `[batch, stride] -> [batch, width]`; a row begins with the inputs, the rest of it is ignored.
    pub fn rectified(
        &self,
        input: &[f32],
        stride: usize,
        codes: &mut Codes,
        output: &mut Vec<f32>,
    ) {
        assert!(self.inputs <= stride, "a row holds every input");
        let rows = input.len() / stride;
        codes.resize(rows, self.inputs.div_ceil(2));
        output.resize(rows * self.width(), 0.0);
        // SAFETY: `new` made sure that the processor has the instructions.
        unsafe {
            match self.instructions {
                Instructions::Portable => self.multiply::<[i32; 4]>(input, stride, codes, output),
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => self.avx2(input, stride, codes, output),
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512 => self.avx512(input, stride, codes, output),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn avx2(&self, input: &[f32], stride: usize, codes: &mut Codes, output: &mut [f32]) {
        // SAFETY: this function is compiled for, and thus called with, the instructions of the vector.
        unsafe { self.multiply::<__m256i>(input, stride, codes, output) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn avx512(&self, input: &[f32], stride: usize, codes: &mut Codes, output: &mut [f32]) {
        // SAFETY: this function is compiled for, and thus called with, the instructions of the vector.
        unsafe { self.multiply::<__m512i>(input, stride, codes, output) }
    }

    /// Panel by panel, and for each of them tile by tile; one row or two with several panels at once, so that sums
    /// enough are under way to hide the latency of an addition.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)] // into a function that is compiled for these instructions
    unsafe fn multiply<V: Vector>(
        &self,
        input: &[f32],
        stride: usize,
        codes: &mut Codes,
        output: &mut [f32],
    ) {
        codes.encode(input, stride, self.inputs, V::ROWS);
        let panels = self.width() / (VECTORS * V::LANES);
        // SAFETY: the caller promises the instructions.
        unsafe {
            match codes.steps.len() {
                1 if panels.is_multiple_of(4) => self.multiply_few::<V, 1, 4>(codes, output),
                1 if panels.is_multiple_of(3) => self.multiply_few::<V, 1, 3>(codes, output),
                2 if panels.is_multiple_of(2) => self.multiply_few::<V, 2, 2>(codes, output),
                2 if panels.is_multiple_of(3) => self.multiply_few::<V, 2, 3>(codes, output),
                _ => self.multiply_many::<V>(codes, output),
            }
        }
    }

    /// `ROWS` rows with `PANELS` panels at once.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)]
    unsafe fn multiply_few<V: Vector, const ROWS: usize, const PANELS: usize>(
        &self,
        codes: &Codes,
        output: &mut [f32],
    ) {
        let group = PANELS * VECTORS * V::LANES;
        for start in (0..self.width()).step_by(group) {
            let tile = Tile {
                layer: self,
                codes,
                row: 0,
                start,
                output,
            };
            // SAFETY: the caller promises the instructions.
            unsafe { tile.multiply::<V, ROWS, PANELS>() }
        }
    }

    /// Any number of rows, with one panel at a time.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)]
    unsafe fn multiply_many<V: Vector>(&self, codes: &Codes, output: &mut [f32]) {
        for start in (0..self.width()).step_by(VECTORS * V::LANES) {
            for row in (0..codes.steps.len()).step_by(V::ROWS) {
                let tile = Tile {
                    layer: self,
                    codes,
                    row,
                    start,
                    output,
                };
                // SAFETY: the caller promises the instructions.
                unsafe { tile.multiply_up_to_8::<V>() }
            }
        }
    }
}

/// Rows of inputs in 16 bits: `input = number · step` of its row, with one more number, 0, where they are odd.
#[derive(Debug, Default)]
pub struct Codes {
    /// In each row.
    pairs: usize,
    /// `[batch, pairs, 2]`.
    numbers: Vec<[i16; 2]>,
    /// `[batch]`.
    steps: Vec<f32>,
    /// The pairs that are not 0 in all rows of a tile, `[tile, pairs]`, of which the first `counts` of the tile are filled in.
    live: Vec<u32>,
    counts: Vec<usize>,
    /// The bits that are set in any row of a tile, `[pairs, 2]`.
    any: Vec<[i16; 2]>,
}

impl Codes {
    fn resize(&mut self, rows: usize, pairs: usize) {
        self.pairs = pairs;
        self.numbers.resize(rows * pairs, [0; 2]);
        self.steps.resize(rows, 0.0);
        self.live.resize(rows * pairs, 0);
        self.counts.resize(rows, 0);
        self.any.resize(pairs, [0; 2]);
    }

    /// Rounds the first `inputs` numbers of each row, so that no sum of products with weights leaves 32 bits, and finds the
    /// live pairs of each tile of so many rows.
    #[inline(always)] // into a function that is compiled for vectors
    fn encode(&mut self, input: &[f32], stride: usize, inputs: usize, tile_rows: usize) {
        let most = (i32::MAX / i32::from(Quantized::MOST) / inputs as i32).min(i16::MAX.into());
        let most = most as f32;
        let pairs = self.pairs;
        let tiles = input.chunks(tile_rows * stride);
        let places = self.numbers.chunks_mut(tile_rows * pairs);
        let tiles = tiles.zip(places).zip(self.steps.chunks_mut(tile_rows));
        let lives = self.live.chunks_exact_mut(pairs).zip(&mut self.counts);
        for (((rows, places), steps), (live, count)) in tiles.zip(lives) {
            self.any.fill([0; 2]);
            let rows = rows.chunks_exact(stride);
            let rows = rows.zip(places.chunks_exact_mut(pairs)).zip(steps);
            for ((row, places), step) in rows {
                let row = &row[..inputs];
                let largest = largest(row);
                *step = largest / most;
                let codes_per_one = if largest > 0.0 { most / largest } else { 0.0 };
                let (numbers, rest) = places.as_flattened_mut().split_at_mut(inputs);
                for (number, value) in numbers.iter_mut().zip(row) {
                    *number = nearest(value * codes_per_one);
                }
                rest.fill(0);
                let any = self.any.as_flattened_mut();
                for (any, number) in any.iter_mut().zip(places.as_flattened()) {
                    *any |= number;
                }
            }
            let mut found = 0;
            for (pair, &any) in self.any.iter().enumerate() {
                live[found] = pair as u32;
                found += usize::from(any != [0; 2]);
            }
            *count = found;
        }
    }
}

/// The largest magnitude, found in independent lanes so that compilers turn them into vectors; the bits of numbers that are
/// not negative are in the numbers' order.
#[inline(always)] // into a function that is compiled for vectors
fn largest(numbers: &[f32]) -> f32 {
    let (chunks, rest) = numbers.as_chunks::<16>();
    let mut lanes = [0; 16];
    for chunk in chunks {
        for (lane, number) in lanes.iter_mut().zip(chunk) {
            *lane = u32::max(*lane, number.abs().to_bits());
        }
    }
    let rest = rest.iter().map(|number| number.abs().to_bits());
    f32::from_bits(rest.chain(lanes).fold(0, u32::max))
}

/// A few rows to be multiplied with one panel, or with several.
struct Tile<'a> {
    layer: &'a Dense,
    codes: &'a Codes,
    /// The first row.
    row: usize,
    /// The first output of the panels.
    start: usize,
    /// Of all rows and all outputs.
    output: &'a mut [f32],
}

impl Tile<'_> {
    /// As many rows as there are.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)]
    unsafe fn multiply_up_to_8<V: Vector>(self) {
        // SAFETY: the caller promises the instructions.
        unsafe {
            match (self.codes.steps.len() - self.row).min(V::ROWS) {
                1 => self.multiply::<V, 1, 1>(),
                2 => self.multiply::<V, 2, 1>(),
                3 => self.multiply::<V, 3, 1>(),
                4 => self.multiply::<V, 4, 1>(),
                5 => self.multiply::<V, 5, 1>(),
                6 => self.multiply::<V, 6, 1>(),
                7 => self.multiply::<V, 7, 1>(),
                8 => self.multiply::<V, 8, 1>(),
                count => unreachable!("{count} rows in a tile"),
            }
        }
    }

    /// `ROWS` rows and `PANELS` panels, numbers known when the program is compiled so that the sums become registers.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)]
    unsafe fn multiply<V: Vector, const ROWS: usize, const PANELS: usize>(self) {
        let panel_width = VECTORS * V::LANES;
        let outputs = PANELS * panel_width;
        let (width, pairs) = (self.layer.width(), self.codes.pairs);
        let rows = &self.codes.numbers[self.row * pairs..][..ROWS * pairs];
        let panels = &self.layer.weights[2 * self.start * pairs..][..2 * outputs * pairs];
        let tile = self.row / V::ROWS;
        let live = &self.codes.live[tile * pairs..][..self.codes.counts[tile]];
        let steps = &self.codes.steps[self.row..][..ROWS];
        let scales = &self.layer.scales[self.start..][..outputs];
        let biases = &self.layer.biases[self.start..][..outputs];
        let written = self.row * width + self.start;
        let output = &mut self.output[written..][..(ROWS - 1) * width + outputs];
        // SAFETY: the caller promises the instructions. The slices above are as long as what is read and written: a panel
        // holds `pairs` pairs for each of its outputs, and live pairs are less than that.
        unsafe {
            let mut sums = [[[V::zero(); VECTORS]; PANELS]; ROWS];
            for &pair in live {
                let pair = pair as usize;
                let weights: [[V::Pairs; VECTORS]; PANELS] = std::array::from_fn(|panel| {
                    let from = panels
                        .as_ptr()
                        .add((panel * pairs + pair) * 2 * panel_width);
                    std::array::from_fn(|vector| V::load(from.add(vector * 2 * V::LANES)))
                });
                for (row, sums) in sums.iter_mut().enumerate() {
                    let inputs = V::splat(rows.as_ptr().add(row * pairs + pair).read());
                    let sums = sums.as_flattened_mut().iter_mut();
                    for (sum, &weights) in sums.zip(weights.as_flattened()) {
                        *sum = sum.add_products(inputs, weights);
                    }
                }
            }
            for (row, sums) in sums.into_iter().enumerate() {
                for (vector, &sum) in sums.as_flattened().iter().enumerate() {
                    let place = vector * V::LANES;
                    let scales = scales.as_ptr().add(place);
                    let biases = biases.as_ptr().add(place);
                    let to = output.as_mut_ptr().add(row * width + place);
                    sum.store_rectified(steps[row], scales, biases, to);
                }
            }
        }
    }
}

/// A register of sums, whole numbers of 32 bits.
///
/// # Safety
/// Every function needs a processor that has the instructions of the type.
trait Vector: Copy {
    /// Numbers in a register.
    const LANES: usize;
    /// Rows of a tile, so that its sums leave registers for the operands; at most 8.
    const ROWS: usize;
    /// A register of pairs of numbers of 16 bits, one for each sum.
    type Pairs: Copy;

    unsafe fn zero() -> Self;

    /// The same pair for every sum.
    unsafe fn splat(pair: [i16; 2]) -> Self::Pairs;

    /// `from` must point to `LANES` pairs.
    unsafe fn load(from: *const i16) -> Self::Pairs;

    /// `self + left[0] · right[0] + left[1] · right[1]`.
    unsafe fn add_products(self, left: Self::Pairs, right: Self::Pairs) -> Self;

    /// Stores `max(0, self · scale · step + bias)`, rounded after each operation; all three must point to `LANES` numbers.
    unsafe fn store_rectified(
        self,
        step: f32,
        scales: *const f32,
        biases: *const f32,
        to: *mut f32,
    );
}

impl Vector for [i32; 4] {
    const LANES: usize = 4;
    const ROWS: usize = 4;
    type Pairs = [i16; 8];

    #[inline(always)]
    unsafe fn zero() -> Self {
        [0; 4]
    }

    #[inline(always)]
    unsafe fn splat([first, second]: [i16; 2]) -> Self::Pairs {
        std::array::from_fn(|place| if place % 2 == 0 { first } else { second })
    }

    #[inline(always)]
    unsafe fn load(from: *const i16) -> Self::Pairs {
        // SAFETY: the caller promises four pairs; an array needs no more alignment than its items.
        unsafe { from.cast::<Self::Pairs>().read() }
    }

    #[inline(always)]
    unsafe fn add_products(self, left: Self::Pairs, right: Self::Pairs) -> Self {
        let product = |place: usize| i32::from(left[place]) * i32::from(right[place]);
        std::array::from_fn(|lane| self[lane] + (product(2 * lane) + product(2 * lane + 1)))
    }

    #[inline(always)]
    unsafe fn store_rectified(
        self,
        step: f32,
        scales: *const f32,
        biases: *const f32,
        to: *mut f32,
    ) {
        // SAFETY: the caller promises four numbers each.
        unsafe {
            let (scales, biases) = (scales.cast::<[f32; 4]>(), biases.cast::<[f32; 4]>());
            let (scales, biases) = (scales.read(), biases.read());
            let value = |lane: usize| self[lane] as f32 * scales[lane] * step + biases[lane];
            to.cast::<[f32; 4]>()
                .write(std::array::from_fn(|lane| value(lane).max(0.0)));
        }
    }
}

/// Implements [`Vector`] by intrinsics of one prefix.
#[cfg(target_arch = "x86_64")]
macro_rules! vector {
    (
        $vector:ty, lanes $lanes:literal, rows $rows:literal,
        whole $zero:ident $splat:ident $load:ident, products $add_products:expr,
        real $convert:ident $splat_real:ident $load_real:ident $store_real:ident
        $multiply:ident $add:ident $max:ident $zero_real:ident
    ) => {
        // SAFETY, throughout: the caller promises the instructions and the numbers behind a pointer.
        impl Vector for $vector {
            const LANES: usize = $lanes;
            const ROWS: usize = $rows;
            type Pairs = Self;

            #[inline(always)]
            unsafe fn zero() -> Self {
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn splat(pair: [i16; 2]) -> Self {
                // The first number is in the lower half, as in memory.
                let [first, second] = pair.map(|number| number as u16);
                let bits = u32::from(first) | u32::from(second) << 16;
                unsafe { $splat(bits as i32) }
            }

            #[inline(always)]
            unsafe fn load(from: *const i16) -> Self {
                unsafe { $load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn add_products(self, left: Self, right: Self) -> Self {
                unsafe { $add_products(self, left, right) }
            }

            #[inline(always)]
            unsafe fn store_rectified(
                self,
                step: f32,
                scales: *const f32,
                biases: *const f32,
                to: *mut f32,
            ) {
                unsafe {
                    let scaled = $multiply($convert(self), $load_real(scales));
                    let value = $add($multiply(scaled, $splat_real(step)), $load_real(biases));
                    $store_real(to, $max(value, $zero_real()));
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
vector! {
    __m256i, lanes 8, rows 6,
    whole _mm256_setzero_si256 _mm256_set1_epi32 _mm256_loadu_si256,
    products |sum, left, right| _mm256_add_epi32(sum, _mm256_madd_epi16(left, right)),
    real _mm256_cvtepi32_ps _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps
    _mm256_mul_ps _mm256_add_ps _mm256_max_ps _mm256_setzero_ps
}

#[cfg(target_arch = "x86_64")]
vector! {
    __m512i, lanes 16, rows 8,
    whole _mm512_setzero_si512 _mm512_set1_epi32 _mm512_loadu_si512,
    products _mm512_dpwssd_epi32,
    real _mm512_cvtepi32_ps _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps
    _mm512_mul_ps _mm512_add_ps _mm512_max_ps _mm512_setzero_ps
}
