//! One dense layer with a rectifier in whole numbers, for the vector instructions that the processor has.
//!
//! Weights are integers ([`Quantized`]). A row of inputs is rounded to 15 or 16 bits with a step of its own, so a sum of
//! products is a whole number of 32 bits: exact in any order, hence the same on every processor, and half as many instructions
//! as products of 32-bit floats take. Only the end of a layer, `sum · scale · step + bias`, is floating point.
//!
//! Outputs lie in strips of up to twelve vectors, whose sums stay in registers while the inputs of a row pass by, two at a time.
//! A strip fits the first-level cache and stays there while the rows of a block pass by. Pairs of inputs that are 0 are left
//! out, which changes no sum: of the units of the first two hidden layers of H200's GEMMs 7 and 9 in 10 are 0 in a row. Each
//! row is multiplied alone, since others have other units that are 0.
//!
//! There is one loop; [`Vector`] says what it needs of an instruction set. All `unsafe` code is here.

#![allow(unsafe_code)] // Vector instructions found at run time can be reached in no other way.

use crate::regressor::net::{Layer, Quantized, nearest};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Vectors side by side in a strip: enough sums under way to hide the latency of an addition, few enough for 16 registers.
const STRIP: usize = 12;

/// Rows of numbers are filled up with zeros to a multiple of this: two of the widest vectors.
pub const ROW: usize = 32;

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
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni"),
        }
    }

    /// Sums in a vector.
    fn lanes(self) -> usize {
        match self {
            Self::Portable => <[i32; 4]>::LANES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => __m256i::LANES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => __m512i::LANES,
        }
    }
}

/// Work that loops over numbers.
///
/// A closure would not do in its place: compilers leave a large one as it is, and what is not inlined knows nothing of vectors.
pub trait Loops {
    /// What comes of it.
    type Output;

    /// Does it; implementations are `#[inline(always)]`.
    fn run(self) -> Self::Output;
}

/// Does `work` with 256-bit vectors where the processor has them; wider ones gain nothing.
#[inline(always)]
pub fn vectorised<W: Loops>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2<W: Loops>(work: W) -> W::Output {
            work.run()
        }
        if Instructions::Avx2.detected() {
            // SAFETY: the processor has the instructions.
            return unsafe { avx2(work) };
        }
    }
    work.run()
}

/// A cache line of weights: a load that is split over two of them takes as long as two.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([i16; ROW]);

/// A hidden layer laid out for the processor.
#[derive(Clone, Debug)]
pub struct Dense {
    instructions: Instructions,
    /// Numbers in a row of inputs.
    inputs: usize,
    /// The largest code of an input, so that no sum of products leaves 32 bits.
    most: f32,
    /// `[strip, pair of inputs, output of the strip, 2]`.
    weights: Vec<Line>,
    /// What one step of a weight is, `[output, of all strips]`.
    scales: Vec<f32>,
    /// `[output, of all strips]`.
    biases: Vec<f32>,
}

impl Dense {
    /// Packs `layer`, its weights rounded to integers, with weights of 0 for what fills up rows of inputs and the last vector.
    ///
    /// # Panics
    /// When this processor does not have `instructions`.
    pub fn new(layer: &Layer, instructions: Instructions) -> Self {
        assert!(instructions.detected(), "{instructions:?} on this machine");
        let width = layer.outputs.next_multiple_of(instructions.lanes());
        let strip = STRIP * instructions.lanes();
        let Quantized { integers, scales } = Quantized::of(layer);
        let inputs = layer.inputs.next_multiple_of(ROW);
        let pairs = inputs / 2;
        let largest = integers.iter().map(|integer| integer.abs()).max();
        let largest = i32::from(largest.unwrap_or(0).max(1));
        let most = i32::MAX / largest / layer.inputs.max(1) as i32;
        let mut weights = vec![Line([0; ROW]); width * inputs / ROW];
        for (input, row) in integers.chunks_exact(layer.outputs).enumerate() {
            let (pair, half) = (input / 2, input % 2);
            for (start, row) in (0..width).step_by(strip).zip(row.chunks(strip)) {
                let outputs = strip.min(width - start);
                let first = 2 * (start * pairs + pair * outputs) + half;
                for (output, &weight) in row.iter().enumerate() {
                    let place = first + 2 * output;
                    weights[place / ROW].0[place % ROW] = weight;
                }
            }
        }
        let filled = |mut numbers: Vec<f32>| {
            numbers.resize(width, 0.0);
            numbers
        };
        Self {
            instructions,
            inputs,
            most: most.min(i16::MAX.into()) as f32,
            weights,
            scales: filled(scales),
            biases: filled(layer.bias.clone()),
        }
    }

    /// Numbers in a row of outputs: those of the layer, then zeros.
    pub fn width(&self) -> usize {
        self.biases.len().next_multiple_of(ROW)
    }

    /// Writes `max(0, input · weights + bias)` into `output`, with inputs rounded to 16 bits.
    ///
    /// # Shapes
    /// `[batch, inputs] -> [batch, width]`, both with rows that are filled up to a multiple of [`ROW`].
    ///
    /// # Panics
    /// When the output has another batch.
    pub fn rectified(&self, input: &[f32], codes: &mut Codes, output: &mut [f32]) {
        let rows = [input.len() / self.inputs, output.len() / self.width()];
        assert_eq!(rows[0], rows[1], "rows");
        // SAFETY: `new` made sure that the processor has the instructions.
        unsafe {
            match self.instructions {
                Instructions::Portable => self.multiply::<[i32; 4]>(input, codes, output),
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => self.avx2(input, codes, output),
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512 => self.avx512(input, codes, output),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1")]
    fn avx2(&self, input: &[f32], codes: &mut Codes, output: &mut [f32]) {
        // SAFETY: this function is compiled for, and thus called with, the instructions of the vector.
        unsafe { self.multiply::<__m256i>(input, codes, output) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn avx512(&self, input: &[f32], codes: &mut Codes, output: &mut [f32]) {
        // SAFETY: this function is compiled for, and thus called with, the instructions of the vector.
        unsafe { self.multiply::<__m512i>(input, codes, output) }
    }

    /// Strip by strip, and for each of them row by row.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)] // into a function that is compiled for these instructions
    unsafe fn multiply<V: Vector>(&self, input: &[f32], codes: &mut Codes, output: &mut [f32]) {
        let outputs = self.biases.len();
        // Before the strips, which overwrite what is theirs.
        output.chunks_exact_mut(self.width()).for_each(clear_end);
        // SAFETY: the caller promises the instructions.
        unsafe {
            codes.encode::<V>(input, self.inputs, self.most);
            for start in (0..outputs).step_by(STRIP * V::LANES) {
                match (outputs - start) / V::LANES {
                    1 => self.multiply_strip::<V, 1>(start, codes, output),
                    2 => self.multiply_strip::<V, 2>(start, codes, output),
                    3 => self.multiply_strip::<V, 3>(start, codes, output),
                    4 => self.multiply_strip::<V, 4>(start, codes, output),
                    5 => self.multiply_strip::<V, 5>(start, codes, output),
                    6 => self.multiply_strip::<V, 6>(start, codes, output),
                    7 => self.multiply_strip::<V, 7>(start, codes, output),
                    8 => self.multiply_strip::<V, 8>(start, codes, output),
                    9 => self.multiply_strip::<V, 9>(start, codes, output),
                    10 => self.multiply_strip::<V, 10>(start, codes, output),
                    11 => self.multiply_strip::<V, 11>(start, codes, output),
                    _ => self.multiply_strip::<V, STRIP>(start, codes, output),
                }
            }
        }
    }

    /// All rows with the strip that begins at output `start`, `VECTORS` wide, known when the program is compiled so that the
    /// sums become registers.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)]
    unsafe fn multiply_strip<V: Vector, const VECTORS: usize>(&self, start: usize, codes: &Codes, output: &mut [f32]) {
        let outputs = VECTORS * V::LANES;
        let lines = self.inputs / ROW;
        let weights = &self.weights[start * lines..][..outputs * lines];
        let scales = &self.scales[start..][..outputs];
        let biases = &self.biases[start..][..outputs];
        for (row, output) in codes.rows().zip(output.chunks_exact_mut(self.width())) {
            let output = &mut output[start..][..outputs];
            // SAFETY: the caller promises the instructions. A row has as many pairs of inputs as a strip, which holds two numbers
            // for each of its outputs and each of them, lines without gaps, and the other slices are as long as what is read
            // and written.
            unsafe {
                let mut sums = [V::zero(); VECTORS];
                for (word, &live) in row.live.iter().enumerate() {
                    let mut left = live;
                    while left != 0 {
                        let pair = 64 * word + left.trailing_zeros() as usize;
                        left &= left - 1;
                        let inputs = V::splat(*row.pairs.get_unchecked(pair));
                        let from = weights.as_ptr().cast::<i16>().add(pair * 2 * outputs);
                        for (vector, sum) in sums.iter_mut().enumerate() {
                            let weights = V::load(from.add(vector * 2 * V::LANES));
                            *sum = sum.add_products(inputs, weights);
                        }
                    }
                }
                for (vector, sum) in sums.into_iter().enumerate() {
                    let place = vector * V::LANES;
                    let scales = scales.as_ptr().add(place);
                    let biases = biases.as_ptr().add(place);
                    sum.store_rectified(row.step, scales, biases, output.as_mut_ptr().add(place));
                }
            }
        }
    }
}

/// Rows of inputs in 16 bits: `input = number · step` of its row.
#[derive(Debug, Default)]
pub struct Codes {
    rows: usize,
    /// Pairs in a row.
    width: usize,
    /// `[batch, width]`.
    pairs: Vec<[i16; 2]>,
    /// `[batch]`.
    steps: Vec<f32>,
    /// A bit for each pair that is not 0, `[batch, width / 64]`.
    live: Vec<u64>,
}

/// One row of [`Codes`].
struct Coded<'a> {
    pairs: &'a [[i16; 2]],
    live: &'a [u64],
    step: f32,
}

impl Codes {
    fn rows(&self) -> impl Iterator<Item = Coded<'_>> {
        let pairs = self.pairs.chunks_exact(self.width);
        let live = self.live.chunks_exact(self.width.div_ceil(64));
        let rows = pairs.zip(live).zip(&self.steps).take(self.rows);
        rows.map(|((pairs, live), &step)| Coded { pairs, live, step })
    }

    /// Rounds rows of so many numbers, a multiple of [`ROW`], the largest of each to `most`.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)] // into a function that is compiled for vectors
    unsafe fn encode<V: Vector>(&mut self, input: &[f32], inputs: usize, most: f32) {
        self.rows = input.len() / inputs;
        self.width = inputs / 2;
        let words = self.width.div_ceil(64);
        let pairs = grown(&mut self.pairs, self.rows * self.width);
        let live = grown(&mut self.live, self.rows * words);
        let steps = grown(&mut self.steps, self.rows);
        let places = pairs.chunks_exact_mut(self.width).zip(steps);
        for (row, (pairs, step)) in input.chunks_exact(inputs).zip(places) {
            let row = row.as_chunks::<ROW>().0;
            let largest = largest(row);
            *step = largest / most;
            let codes_per_one = if largest > 0.0 { most / largest } else { 0.0 };
            let places = pairs.as_flattened_mut().iter_mut();
            for (place, number) in places.zip(row.as_flattened()) {
                *place = nearest(number * codes_per_one);
            }
        }
        // Only now: a load cannot be forwarded from two smaller stores, and waits until both are in the cache.
        let pairs = pairs.chunks_exact(self.width);
        for (pairs, live) in pairs.zip(live.chunks_exact_mut(words)) {
            for (pairs, live) in pairs.chunks(64).zip(live) {
                let vectors = pairs.chunks_exact(V::LANES).enumerate();
                // SAFETY: the caller promises the instructions.
                *live = vectors.fold(0, |live, (vector, pairs)| unsafe {
                    live | V::live(pairs.as_ptr()) << (vector * V::LANES)
                });
            }
        }
    }
}

/// Zeroes the last [`ROW`] numbers of a row before it is written, of which fewer are padding: a constant length compiles to
/// stores, another one to a call of `memset`.
///
/// # Panics
/// When the row is shorter.
#[inline(always)] // into a function that is compiled for vectors
pub fn clear_end(row: &mut [f32]) {
    let end = row.last_chunk_mut::<ROW>();
    *end.expect("rows are padded to a multiple of ROW") = [0.0; ROW];
}

/// The first `count` numbers of a buffer that never shrinks, whatever they are.
pub fn grown<T: Copy + Default>(buffer: &mut Vec<T>, count: usize) -> &mut [T] {
    if buffer.len() < count {
        buffer.resize(count, T::default());
    }
    &mut buffer[..count]
}

/// The largest magnitude; the bits of numbers that are not negative are in the numbers' order, and compilers turn a maximum of
/// whole numbers into vectors.
#[inline(always)] // into a function that is compiled for vectors
fn largest(numbers: &[[f32; ROW]]) -> f32 {
    let mut lanes = [0; ROW];
    for numbers in numbers {
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane = u32::max(*lane, number.abs().to_bits());
        }
    }
    f32::from_bits(lanes.into_iter().fold(0, u32::max))
}

/// A register of sums, whole numbers of 32 bits.
///
/// # Safety
/// Every function needs a processor that has the instructions of the type.
trait Vector: Copy {
    /// Numbers in a register; at most 16.
    const LANES: usize;
    /// A register of pairs of numbers of 16 bits, one for each sum.
    type Pairs: Copy;

    unsafe fn zero() -> Self;

    /// The same pair for every sum.
    unsafe fn splat(pair: [i16; 2]) -> Self::Pairs;

    /// `from` must point to `LANES` pairs.
    unsafe fn load(from: *const i16) -> Self::Pairs;

    /// A bit for each of the pairs that is not 0, the first the lowest; `from` must point to `LANES` pairs.
    unsafe fn live(from: *const [i16; 2]) -> u64;

    /// `self + left[0] · right[0] + left[1] · right[1]`.
    unsafe fn add_products(self, left: Self::Pairs, right: Self::Pairs) -> Self;

    /// Stores `max(0, self · scale · step + bias)`, rounded after each operation; all three must point to `LANES` numbers.
    unsafe fn store_rectified(self, step: f32, scales: *const f32, biases: *const f32, to: *mut f32);
}

impl Vector for [i32; 4] {
    const LANES: usize = 4;
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
    unsafe fn live(from: *const [i16; 2]) -> u64 {
        // SAFETY: the caller promises four pairs.
        let pairs = unsafe { from.cast::<[[i16; 2]; 4]>().read() };
        let bits = pairs.into_iter().enumerate();
        bits.map(|(place, pair)| u64::from(pair != [0; 2]) << place).sum()
    }

    #[inline(always)]
    unsafe fn add_products(self, left: Self::Pairs, right: Self::Pairs) -> Self {
        let product = |place: usize| i32::from(left[place]) * i32::from(right[place]);
        std::array::from_fn(|lane| self[lane] + (product(2 * lane) + product(2 * lane + 1)))
    }

    #[inline(always)]
    unsafe fn store_rectified(self, step: f32, scales: *const f32, biases: *const f32, to: *mut f32) {
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
        $vector:ty, lanes $lanes:literal,
        whole $zero:ident $splat:ident $load:ident, products $add_products:expr, live $live:expr,
        real $convert:ident $splat_real:ident $load_real:ident $store_real:ident
        $multiply:ident $add:ident $max:ident $zero_real:ident
    ) => {
        // SAFETY, throughout: the caller promises the instructions and the numbers behind a pointer.
        impl Vector for $vector {
            const LANES: usize = $lanes;
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
            unsafe fn live(from: *const [i16; 2]) -> u64 {
                unsafe { $live($load(from.cast())) }
            }

            #[inline(always)]
            unsafe fn add_products(self, left: Self, right: Self) -> Self {
                unsafe { $add_products(self, left, right) }
            }

            #[inline(always)]
            unsafe fn store_rectified(self, step: f32, scales: *const f32, biases: *const f32, to: *mut f32) {
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
    __m256i, lanes 8,
    whole _mm256_setzero_si256 _mm256_set1_epi32 _mm256_loadu_si256,
    products |sum, left, right| _mm256_add_epi32(sum, _mm256_madd_epi16(left, right)),
    live |pairs| {
        let zero = _mm256_cmpeq_epi32(pairs, _mm256_setzero_si256());
        u64::from(!_mm256_movemask_ps(_mm256_castsi256_ps(zero)) as u8)
    },
    real _mm256_cvtepi32_ps _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps
    _mm256_mul_ps _mm256_add_ps _mm256_max_ps _mm256_setzero_ps
}

#[cfg(target_arch = "x86_64")]
vector! {
    __m512i, lanes 16,
    whole _mm512_setzero_si512 _mm512_set1_epi32 _mm512_loadu_si512,
    products _mm512_dpwssd_epi32,
    live |pairs| u64::from(_mm512_test_epi32_mask(pairs, pairs)),
    real _mm512_cvtepi32_ps _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps
    _mm512_mul_ps _mm512_add_ps _mm512_max_ps _mm512_setzero_ps
}
