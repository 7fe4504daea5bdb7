//! Times of GEMMs that a library was only asked about: trees that see which kernel it takes label them.
//!
//! What the features of a GEMM do not show is above all which kernel runs. A library says it for nothing, so a forest over timed
//! rows and their kernels labels shapes that were asked about, and all that learns from rows learns from these labels, too.

use crate::dataset::{Kernel, Row};
use crate::families::{Family, GpuRates};
use crate::ops::{Gemm, Op};
use crate::tiles::{Tile, Waves};
use crate::train::trees::{TreesConfig, grow};

/// Least timed rows with a kernel that a forest is grown over.
const LEAST_TIMED: usize = 200;

/// What trees see of a kernel: algorithm, tile, stages, parts of the reduction, cluster, and how the output falls into blocks.
const SEEN: usize = 10;

fn seen(gemm: &Gemm, kernel: &Kernel, rates: &GpuRates) -> [f32; SEEN] {
    let algorithm = kernel.name.as_deref().and_then(|name| name.rsplit(' ').next());
    let algorithm = algorithm.and_then(|number| number.parse().ok()).unwrap_or(-1.0);
    let (rows, columns) = kernel.tile.unwrap_or_default();
    let cluster = kernel.cluster.unwrap_or_default();
    let parts = kernel.split_k.unwrap_or(1).max(1) as f32;
    let fill = (rows > 0 && columns > 0).then(|| Waves::new(gemm, Tile::new(rows.into(), columns.into()), rates.sms()));
    let waves = fill.as_ref().map_or(-1.0, |fill| fill.waves() as f32 * parts);
    [
        algorithm,
        rows as f32,
        columns as f32,
        kernel.stages.map_or(-1.0, |stages| stages as f32),
        parts,
        cluster.0 as f32,
        cluster.1 as f32,
        fill.as_ref().map_or(-1.0, |fill| fill.waste() as f32),
        waves,
        waves.ceil() / waves,
    ]
}

/// Raw features of a row and what is seen of its kernel, and the reference time; `None` without a kernel.
fn inputs(row: &Row, rates: &GpuRates) -> Option<(Vec<f32>, f64)> {
    let kernel = row.measured.as_ref()?.kernel.as_ref()?;
    let Op::Gemm(gemm) = &row.op else { return None };
    let mut inputs = vec![0.0; Family::Gemm.width()];
    let reference = rates.features(&row.op, &mut inputs).secs();
    inputs.extend(seen(gemm, kernel, rates));
    Some((inputs, reference))
}

/// Labels shapes that a library was asked about by rows whose kernels were timed: operators and seconds. Shapes beyond the timed
/// ones in any dimension or in reference time are left out, and so are all where too few rows have a kernel.
pub fn labels<'a>(timed: &[&Row], asked: &[&'a Row], rates: &GpuRates, trees: usize, seed: u64) -> Vec<(&'a Op, f64)> {
    let known: Vec<_> = timed
        .iter()
        .filter_map(|row| Some((inputs(row, rates)?, *row)))
        .collect();
    if known.len() < LEAST_TIMED {
        return vec![];
    }
    let sizes = |row: &Row| match &row.op {
        Op::Gemm(gemm) => [gemm.m, gemm.n, gemm.k],
        _ => [0; 3],
    };
    let mut most = [0; 3];
    for (_, row) in &known {
        most = std::array::from_fn(|place| most[place].max(sizes(row)[place]));
    }
    let longest = known.iter().map(|((_, reference), _)| *reference).fold(0.0, f64::max);
    let targets = known
        .iter()
        .map(|((_, reference), row)| (row.time.secs() / reference).ln() as f32);
    let targets: Vec<f32> = targets.collect();
    let all: Vec<f32> = known.iter().flat_map(|((inputs, _), _)| inputs).copied().collect();
    let (width, weights) = (all.len() / targets.len(), vec![1.0; targets.len()]);
    let config = TreesConfig {
        trees,
        ..TreesConfig::default()
    };
    let forest = grow(width, &all, &targets, &weights, &config, seed, &mut |_| {});
    let mut unlabelled = Vec::new();
    let (ops, references): (Vec<&Op>, Vec<f64>) = asked
        .iter()
        .filter(|row| sizes(row).iter().zip(most).all(|(size, most)| *size <= most))
        .filter_map(|row| {
            let (inputs, reference) = inputs(row, rates).filter(|(_, reference)| *reference <= longest)?;
            unlabelled.extend(inputs);
            Some((&row.op, reference))
        })
        .unzip();
    let labels = forest.predict(&unlabelled).into_iter().zip(references);
    let times = labels.map(|(label, reference)| reference * f64::from(label).exp());
    ops.into_iter().zip(times).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::choices::Choice;
    use crate::gpu::Gpu;
    use crate::random::Random;
    use crate::units::Seconds;
    use std::sync::Arc;

    /// A GEMM whose kernel follows from nothing that its features show, and its time: one kernel takes twice the other's.
    fn row(number: u64, rates: &GpuRates) -> Row {
        let mut random = Random::new(3, &format!("row {number}"));
        let mut size = || 64 * (1 + random.below(100) as u64);
        let gemm = Gemm::new(size(), size(), size());
        let slow = random.below(2) == 1;
        let kernel = Kernel {
            name: Some("made-up algorithm 7".to_owned()),
            tile: Some(if slow { (64, 64) } else { (128, 128) }),
            ..Kernel::default()
        };
        let factor = if slow { 3.0 } else { 1.5 };
        let time = rates.reference(&Op::Gemm(gemm)) * factor;
        Row {
            time,
            ..Choice { gemm, kernel }.into_row(&Arc::from("h200"), &Arc::from("made-up 1"))
        }
    }

    #[test]
    fn shapes_are_labelled_by_the_kernel_that_the_library_takes() {
        let rates = GpuRates::new(Gpu::find("h200").unwrap(), Seconds::from_micros(3.0));
        let rows: Vec<Row> = (0..900).map(|number| row(number, &rates)).collect();
        let (timed, asked): (Vec<&Row>, Vec<&Row>) = (rows[..300].iter().collect(), rows[300..].iter().collect());
        let labelled = labels(&timed, &asked, &rates, 100, 0);
        assert!((550..=600).contains(&labelled.len()), "{}", labelled.len());
        let time_of = |op: &Op| asked.iter().find(|row| row.op == *op).unwrap().time.secs();
        let errors = labelled.iter().map(|(op, time)| (time / time_of(op)).ln().abs());
        let mean = errors.sum::<f64>() / labelled.len() as f64;
        assert!(mean < 0.05, "{mean}");
        assert!(labels(&timed[..100], &asked, &rates, 100, 0).is_empty());
    }
}
