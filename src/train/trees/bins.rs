//! Features cut into quantile bins.

/// A feature cut into bins.
pub(super) struct Column {
    pub(super) feature: usize,
    /// The greatest value of every bin but the last.
    pub(super) edges: Vec<f32>,
    /// The bin of each row.
    pub(super) bins: Vec<u8>,
}

impl Column {
    /// The feature's column over the rows `kept`, or none if it has one value there.
    pub(super) fn cut(feature: usize, width: usize, inputs: &[f32], kept: &[u32], bins: usize) -> Option<Self> {
        let value = |&row: &u32| inputs[row as usize * width + feature];
        let mut sorted: Vec<f32> = kept.iter().map(value).collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let edges = cut_edges(&sorted, bins.clamp(2, 256));
        let bin = |row| edges.partition_point(|&edge| edge < value(row)) as u8;
        let bins = kept.iter().map(bin).collect();
        (!edges.is_empty()).then_some(Self { feature, edges, bins })
    }
}

/// Cuts sorted values into bins: one for each distinct value where they suffice, else about equally
/// full ones, a value that would fill a bin by itself having its own.
pub(super) fn cut_edges(sorted: &[f32], bins: usize) -> Vec<f32> {
    let distinct: Vec<(f32, usize)> = sorted
        .chunk_by(|a, b| a == b)
        .map(|equal| (equal[0], equal.len()))
        .collect();
    let heavy = if distinct.len() <= bins {
        1
    } else {
        sorted.len().div_ceil(bins)
    };
    let heavies = || distinct.iter().filter(|(_, count)| *count >= heavy);
    let mut rows_left = sorted.len() - heavies().map(|(_, count)| count).sum::<usize>();
    let mut bins_left = bins.saturating_sub(heavies().count()).max(1);
    let mut edges = Vec::new();
    let mut filled = 0;
    for pair in distinct.windows(2) {
        let ((value, count), (next, next_count)) = (pair[0], pair[1]);
        filled += count;
        let alone = count >= heavy;
        let full = alone || next_count >= heavy || filled * bins_left >= rows_left;
        if full && edges.len() + 1 < bins {
            edges.push(between(value, next));
            if !alone {
                rows_left -= filled;
                bins_left = bins_left.saturating_sub(1).max(1);
            }
            filled = 0;
        }
    }
    edges
}

/// A threshold at or above `low` and below `high`: their middle, if it differs from `high`.
pub(super) fn between(low: f32, high: f32) -> f32 {
    let middle = low / 2.0 + high / 2.0;
    if low <= middle && middle < high { middle } else { low }
}
