//! Fast evaluation of an ensemble of small nets on one core.
//!
//! Rows are taken in blocks and turned on their side: a [`Column`] holds one feature, or one hidden
//! unit, of every row of the block, so that a vector register holds the same number of many rows and
//! the output of one layer already lies as the next one reads it.
//!
//! A column with one value in all its rows (a property of the GPU, a dimension that a sweep holds fixed,
//! a unit that the rectifier silenced) is multiplied once for the block instead of once a row.
//! A block of a single row is the extreme case: every column is shared, and the silent ones cost nothing.
//!
//! The code is plain loops over arrays, compiled once for each instruction set in [`Path`].

use super::net::{Layer, Net};
use std::cell::RefCell;

/// Outputs of a layer whose weights lie side by side: one cache line.
const PANEL: usize = 16;

/// Panels summed side by side when a column is shared, to hide the latency of an addition.
const PANELS_AT_ONCE: usize = 4;

/// Instructions that the loops below are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// Whatever the build targets.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Path {
    /// Those that this processor runs, slowest first.
    fn available() -> Vec<Self> {
        let mut paths = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                paths.push(Self::Avx2);
            }
        }
        paths
    }
}

/// Nets of one family laid out for the processor.
///
/// # Shapes
/// `[batch, inputs] -> [batch, members]`, both row-major.
#[derive(Clone, Debug)]
pub struct Ensemble {
    inputs: usize,
    members: Vec<Vec<Dense>>,
    path: Path,
}

impl Ensemble {
    /// Packs `nets` for the fastest instructions that this processor has.
    ///
    /// # Panics
    /// When the nets differ in the width of their input, or the layers of one do not fit together.
    pub fn new(nets: &[Net]) -> Self {
        let fastest = Path::available().pop().unwrap_or(Path::Portable);
        Self::with_path(nets, fastest)
    }

    fn with_path(nets: &[Net], path: Path) -> Self {
        let inputs = nets.first().map_or(0, Net::inputs);
        for net in nets {
            assert_eq!(net.inputs(), inputs, "members see the same features");
            for pair in net.layers.windows(2) {
                assert_eq!(pair[0].outputs, pair[1].inputs, "layers fit together");
            }
            assert_eq!(net.layers.last().map(|layer| layer.outputs), Some(1));
        }
        let pack = |net: &Net| net.layers.iter().map(Dense::new).collect();
        Self {
            inputs,
            members: nets.iter().map(pack).collect(),
            path,
        }
    }

    /// How many nets there are.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Width of a row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Evaluates every net on `rows`, laid one after the other, and leaves the outputs in `out`.
    ///
    /// Allocates nothing once a thread has evaluated such a batch and `out` has the capacity.
    ///
    /// # Panics
    /// When `rows` is not a whole number of rows.
    pub fn evaluate(&self, rows: &[f32], out: &mut Vec<f32>) {
        out.clear();
        if self.inputs == 0 {
            assert!(rows.is_empty(), "rows of no features");
            return;
        }
        assert_eq!(rows.len() % self.inputs, 0, "a whole number of rows");
        out.resize(rows.len() / self.inputs * self.members(), 0.0);
        SCRATCH.with_borrow_mut(|scratch| self.dispatch(rows, out, scratch));
    }

    #[allow(unsafe_code)] // The only way into code compiled for instructions found at run time.
    fn dispatch(&self, rows: &[f32], out: &mut [f32], scratch: &mut Scratch) {
        match self.path {
            Path::Portable => self.portable(rows, out, scratch),
            // SAFETY: `Path::available` names this path only where AVX2 and FMA were detected.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { self.avx2(rows, out, scratch) },
        }
    }

    fn portable(&self, rows: &[f32], out: &mut [f32], scratch: &mut Scratch) {
        // Elsewhere a fused multiply-add may be a call into the mathematical library.
        const FUSED: bool = cfg!(target_arch = "aarch64");
        let mut batch = Batch { rows, out };
        self.blocks::<8, 4, FUSED>(&mut batch, 3, &mut scratch.eight);
        self.blocks::<1, 1, FUSED>(&mut batch, 1, &mut scratch.one);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn avx2(&self, rows: &[f32], out: &mut [f32], scratch: &mut Scratch) {
        let mut batch = Batch { rows, out };
        self.blocks::<16, 4, true>(&mut batch, 9, &mut scratch.sixteen);
        self.blocks::<8, 8, true>(&mut batch, 3, &mut scratch.eight);
        self.blocks::<1, 1, true>(&mut batch, 1, &mut scratch.one);
    }

    /// Takes blocks of up to `ROWS` rows off the front of `batch` while it holds at least `fewest`.
    ///
    /// `TILE` outputs of `ROWS` rows each are summed in registers at once.
    #[inline(always)]
    fn blocks<const ROWS: usize, const TILE: usize, const FUSED: bool>(
        &self,
        batch: &mut Batch<'_>,
        fewest: usize,
        buffers: &mut Buffers<ROWS>,
    ) {
        while batch.rows.len() >= fewest * self.inputs {
            let (rows, out) = batch.take(ROWS, self.inputs, self.members());
            transpose(rows, self.inputs, &mut buffers.features.all);
            buffers.features.part();
            for (index, member) in self.members.iter().enumerate() {
                let output = buffers.member::<TILE, FUSED>(member);
                for (row, value) in out.chunks_exact_mut(self.members()).zip(output) {
                    row[index] = value;
                }
            }
        }
    }
}

/// The part of a batch that is still to be evaluated.
struct Batch<'a> {
    rows: &'a [f32],
    out: &'a mut [f32],
}

impl<'a> Batch<'a> {
    /// Takes up to `count` rows off the front, with the place for their outputs.
    fn take(&mut self, count: usize, inputs: usize, members: usize) -> (&'a [f32], &'a mut [f32]) {
        let count = count.min(self.rows.len() / inputs);
        let (rows, rest) = self.rows.split_at(count * inputs);
        self.rows = rest;
        let (out, rest) = std::mem::take(&mut self.out).split_at_mut(count * members);
        self.out = rest;
        (rows, out)
    }
}

/// Writes `rows` into one column a feature; rows that a block lacks repeat its last one.
#[inline(always)]
fn transpose<const ROWS: usize>(rows: &[f32], inputs: usize, columns: &mut Vec<Column<ROWS>>) {
    columns.resize(inputs, Column([0.0; ROWS]));
    let last = rows.len() - inputs;
    for row in 0..ROWS {
        let values = &rows[last.min(row * inputs)..][..inputs];
        for (column, value) in columns.iter_mut().zip(values) {
            column.0[row] = *value;
        }
    }
}

/// One layer, its weights in panels: `[panel][input][PANEL]`, the last panel filled up with zeros.
#[derive(Clone, Debug)]
struct Dense {
    inputs: usize,
    outputs: usize,
    weights: Vec<[f32; PANEL]>,
    bias: Vec<[f32; PANEL]>,
}

impl Dense {
    fn new(layer: &Layer) -> Self {
        let panel_of = |row: &[f32], panel: usize| {
            std::array::from_fn(|lane| row.get(panel * PANEL + lane).copied().unwrap_or(0.0))
        };
        let panels = layer.outputs.div_ceil(PANEL);
        let rows = || layer.weight.chunks_exact(layer.outputs);
        Self {
            inputs: layer.inputs,
            outputs: layer.outputs,
            weights: (0..panels)
                .flat_map(|panel| rows().map(move |row| panel_of(row, panel)))
                .collect(),
            bias: (0..panels)
                .map(|panel| panel_of(&layer.bias, panel))
                .collect(),
        }
    }

    /// The weights of one panel, an entry an input.
    #[inline(always)]
    fn panel(&self, panel: usize) -> &[[f32; PANEL]] {
        &self.weights[panel * self.inputs..][..self.inputs]
    }

    /// Outputs for `columns`, none below `floor`.
    #[inline(always)]
    fn apply<const ROWS: usize, const TILE: usize, const FUSED: bool>(
        &self,
        columns: &Columns<ROWS>,
        floor: f32,
        sums: &mut Vec<[f32; PANEL]>,
        outputs: &mut Vec<Column<ROWS>>,
    ) {
        self.shared_sums::<FUSED>(&columns.shared, sums);
        outputs.resize(self.outputs, Column([0.0; ROWS]));
        for (panel, outputs) in outputs.chunks_mut(PANEL).enumerate() {
            let weights = self.panel(panel);
            for (tile, outputs) in outputs.chunks_mut(TILE).enumerate() {
                let first = tile * TILE;
                if outputs.len() == 1 {
                    columns.tile::<1, FUSED>(weights, first, &sums[panel], floor, outputs);
                } else {
                    columns.tile::<TILE, FUSED>(weights, first, &sums[panel], floor, outputs);
                }
            }
        }
    }

    /// Bias plus what the shared columns give: equal for all rows of the block.
    #[inline(always)]
    fn shared_sums<const FUSED: bool>(
        &self,
        shared: &[(usize, f32)],
        sums: &mut Vec<[f32; PANEL]>,
    ) {
        sums.clone_from(&self.bias);
        let (groups, rest) = sums.as_chunks_mut::<PANELS_AT_ONCE>();
        let done = groups.len() * PANELS_AT_ONCE;
        for (group, sums) in groups.iter_mut().enumerate() {
            let panels = std::array::from_fn(|panel| self.panel(group * PANELS_AT_ONCE + panel));
            add_shared::<PANELS_AT_ONCE, FUSED>(shared, panels, sums);
        }
        for (panel, sum) in rest.iter_mut().enumerate() {
            let panels = [self.panel(done + panel)];
            add_shared::<1, FUSED>(shared, panels, std::array::from_mut(sum));
        }
    }
}

/// Adds the products of the shared columns with the weights of a few panels.
#[inline(always)]
fn add_shared<const PANELS: usize, const FUSED: bool>(
    shared: &[(usize, f32)],
    panels: [&[[f32; PANEL]]; PANELS],
    sums: &mut [[f32; PANEL]; PANELS],
) {
    let mut local = *sums;
    for &(input, value) in shared {
        for (sums, weights) in local.iter_mut().zip(panels) {
            for (sum, weight) in sums.iter_mut().zip(&weights[input]) {
                *sum = multiply_add::<FUSED>(value, *weight, *sum);
            }
        }
    }
    *sums = local;
}

/// One feature or hidden unit of each row of a block.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))] // so that no vector straddles two cache lines
struct Column<const ROWS: usize>([f32; ROWS]);

/// What a layer reads, its columns parted by whether their rows differ.
#[derive(Debug, Default)]
struct Columns<const ROWS: usize> {
    all: Vec<Column<ROWS>>,
    /// Index and value of each column with one value other than zero.
    shared: Vec<(usize, f32)>,
    /// Index of each column whose rows differ.
    varying: Vec<usize>,
}

impl<const ROWS: usize> Columns<ROWS> {
    /// Looks through columns that have just been written.
    #[inline(always)]
    fn part(&mut self) {
        self.shared.clear();
        self.varying.clear();
        for (index, Column(values)) in self.all.iter().enumerate() {
            let first = values[0];
            let mut difference = 0;
            for value in values {
                difference |= value.to_bits() ^ first.to_bits();
            }
            if difference != 0 {
                self.varying.push(index);
            } else if first != 0.0 {
                self.shared.push((index, first));
            }
        }
    }

    /// `TILE` outputs of every row, from output `first` of a panel on, starting at `sums`.
    #[inline(always)]
    fn tile<const TILE: usize, const FUSED: bool>(
        &self,
        weights: &[[f32; PANEL]],
        first: usize,
        sums: &[f32; PANEL],
        floor: f32,
        outputs: &mut [Column<ROWS>],
    ) {
        let mut tile: [[f32; ROWS]; TILE] = std::array::from_fn(|at| [sums[first + at]; ROWS]);
        for &input in &self.varying {
            let values = &self.all[input].0;
            let weights = &weights[input][first..first + TILE];
            for at in 0..TILE {
                let weight = weights[at];
                // A whole array at a time: compilers turn this form into vector registers.
                tile[at] = std::array::from_fn(|row| {
                    multiply_add::<FUSED>(weight, values[row], tile[at][row])
                });
            }
        }
        for (output, sums) in outputs.iter_mut().zip(&tile) {
            for (value, sum) in output.0.iter_mut().zip(sums) {
                *value = sum.max(floor);
            }
        }
    }
}

/// Working memory of a block of `ROWS` rows.
#[derive(Debug, Default)]
struct Buffers<const ROWS: usize> {
    features: Columns<ROWS>,
    units: Columns<ROWS>,
    outputs: Vec<Column<ROWS>>,
    sums: Vec<[f32; PANEL]>,
}

impl<const ROWS: usize> Buffers<ROWS> {
    /// The output of one net for every row of the block.
    #[inline(always)]
    fn member<const TILE: usize, const FUSED: bool>(&mut self, layers: &[Dense]) -> [f32; ROWS] {
        for (index, layer) in layers.iter().enumerate() {
            let columns = if index == 0 {
                &self.features
            } else {
                &self.units
            };
            let is_last = index + 1 == layers.len();
            let floor = if is_last { f32::NEG_INFINITY } else { 0.0 };
            layer.apply::<ROWS, TILE, FUSED>(columns, floor, &mut self.sums, &mut self.outputs);
            std::mem::swap(&mut self.outputs, &mut self.units.all);
            if !is_last {
                self.units.part();
            }
        }
        self.units.all[0].0
    }
}

/// `a·b + c`, in one rounding where the processor has an instruction for it.
#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Working memory for each height of block.
#[derive(Debug, Default)]
struct Scratch {
    #[cfg(target_arch = "x86_64")]
    sixteen: Buffers<16>,
    eight: Buffers<8>,
    one: Buffers<1>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reproducible numbers in [-1, 1).
    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn net(widths: &[usize], seed: u64) -> Net {
        let layer = |pair: &[usize]| Layer {
            inputs: pair[0],
            outputs: pair[1],
            weight: numbers(pair[0] * pair[1], seed)
                .iter()
                .map(|weight| weight * (3.0 / pair[0] as f32).sqrt())
                .collect(),
            bias: numbers(pair[1], seed + 1),
        };
        Net {
            layers: widths.windows(2).map(layer).collect(),
        }
    }

    /// Every path agrees with the plain loop on `rows`.
    fn check(nets: &[Net], rows: &[f32]) {
        let expected: Vec<Vec<f32>> = nets.iter().map(|net| net.forward(rows)).collect();
        for path in Path::available() {
            let mut out = vec![f32::NAN; 3];
            Ensemble::with_path(nets, path).evaluate(rows, &mut out);
            assert_eq!(out.len() * nets[0].inputs(), rows.len() * nets.len());
            for (row, values) in out.chunks_exact(nets.len()).enumerate() {
                for (value, expected) in values.iter().zip(&expected) {
                    let bound = 1e-5 * (1.0 + expected[row].abs());
                    let near = (value - expected[row]).abs() <= bound;
                    assert!(near, "{path:?} row {row}: {value}, not {}", expected[row]);
                }
            }
        }
    }

    #[test]
    fn every_path_agrees_with_the_plain_loop_at_every_batch_size() {
        for widths in [
            &[5, 1][..],
            &[7, 13, 1],
            &[9, 17, 18, 1],
            &[33, 17, 40, 5, 1],
        ] {
            let nets = [3, 5, 8].map(|seed| net(widths, seed));
            for batch in 0..=70 {
                check(&nets, &numbers(batch * widths[0], 99));
            }
        }
    }

    #[test]
    fn every_path_agrees_with_the_plain_loop_at_the_usual_widths() {
        let nets = [3, 5, 8, 13, 21].map(|seed| net(&[116, 128, 128, 1], seed));
        for batch in [1, 15, 100] {
            check(&nets, &numbers(batch * 116, 99));
        }
    }

    #[test]
    fn columns_that_rows_share_are_counted_for_each_row() {
        let nets = [3, 5].map(|seed| net(&[6, 20, 1], seed));
        let mut rows = numbers(40 * 6, 99);
        for row in rows.chunks_exact_mut(6) {
            (row[1], row[4]) = (0.75, 0.0);
        }
        check(&nets, &rows);
    }
}
