//! Tests of the boosted trees on rows small enough to judge by hand.

use super::bins::{between, cut_edges};
use super::*;
use crate::random::Random;

/// Trees small enough for a handful of rows, which all see.
fn small(trees: usize) -> TreesConfig {
    TreesConfig {
        trees,
        leaves: 8,
        learning_rate: 0.5,
        min_leaf_rows: 1,
        feature_fraction: 1.0,
        row_fraction: 1.0,
        bins: 255,
    }
}

fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::seeded(seed);
    (0..count).map(|_| random.uniform() as f32).collect()
}

fn grown(width: usize, inputs: &[f32], targets: &[f32], config: &TreesConfig) -> Forest {
    let weights = vec![1.0; targets.len()];
    grow(width, inputs, targets, &weights, config, 7, &mut |_| ())
}

fn squares(predictions: &[f32], targets: &[f32]) -> f32 {
    let pairs = predictions.iter().zip(targets);
    pairs.map(|(a, b)| (a - b).powi(2)).sum()
}

/// Six features over `rows`: noise, one of it coarse, and a target that two of them make.
fn example(rows: usize) -> (Vec<f32>, Vec<f32>) {
    let mut inputs = noise(rows * 6, 3);
    for row in inputs.chunks_mut(6) {
        row[4] = (row[4] * 5.0).floor();
    }
    let target = |row: &[f32]| row[0] * row[4] + row[2];
    let targets = inputs.chunks(6).map(target).collect();
    (inputs, targets)
}

#[test]
fn a_step_is_fitted_exactly() {
    let inputs: Vec<f32> = (0..40).map(|row| row as f32).collect();
    let targets: Vec<f32> = inputs.iter().map(|&x| if x < 13.0 { -1.0 } else { 3.0 }).collect();
    let config = TreesConfig {
        learning_rate: 1.0,
        leaves: 2,
        ..small(1)
    };
    let forest = grown(1, &inputs, &targets, &config);
    assert!(squares(&forest.predict(&inputs), &targets) < 1e-9);
    assert_eq!(forest.nodes[0].value, 12.5);
}

#[test]
fn trees_find_an_interaction_of_two_features() {
    let inputs = noise(800, 1);
    let target = |row: &[f32]| f32::from(u8::from((row[0] > 0.5) != (row[1] > 0.4)));
    let targets: Vec<f32> = inputs.chunks(2).map(target).collect();
    let forest = grown(2, &inputs, &targets, &small(20));
    let mean = targets.iter().sum::<f32>() / targets.len() as f32;
    let error = squares(&forest.predict(&inputs), &targets);
    assert!(error < 0.05 * squares(&vec![mean; targets.len()], &targets));
}

#[test]
fn a_seed_gives_one_forest() {
    let (inputs, targets) = example(300);
    let config = TreesConfig {
        feature_fraction: 0.5,
        row_fraction: 0.7,
        ..small(5)
    };
    let weights = noise(300, 9);
    let forest = |seed| grow(6, &inputs, &targets, &weights, &config, seed, &mut |_| ());
    assert_eq!(forest(1), forest(1));
    assert_ne!(forest(1), forest(2));
}

#[test]
fn rows_of_weight_zero_play_no_part() {
    let (inputs, targets) = example(200);
    let mut spoilt = targets.clone();
    let mut weights = vec![1.0; 200];
    for row in 120..200 {
        spoilt[row] = 1e6;
        weights[row] = 0.0;
    }
    let weighted = grow(6, &inputs, &spoilt, &weights, &small(4), 7, &mut |_| ());
    assert_eq!(weighted, grown(6, &inputs[..720], &targets[..120], &small(4)));
    let none = grow(6, &inputs, &spoilt, &[0.0; 200], &small(4), 7, &mut |_| ());
    assert_eq!(none.predict(&inputs[..6]), [0.0]);
}

#[test]
fn weights_pull_the_mean() {
    let config = small(1);
    let forest = grow(1, &[2.0; 2], &[0.0, 4.0], &[3.0, 1.0], &config, 7, &mut |_| ());
    assert_eq!(forest.predict(&[2.0]), [1.0]);
}

#[test]
fn constant_features_are_ignored() {
    let (inputs, targets) = example(200);
    let widened: Vec<f32> = inputs
        .chunks(6)
        .flat_map(|row| [&[9.0], row, &[-1.0]].concat())
        .collect();
    let plain = grown(6, &inputs, &targets, &small(4));
    let wide = grown(8, &widened, &targets, &small(4));
    assert_eq!(plain.predict(&inputs), wide.predict(&widened));
}

#[test]
fn nothing_to_split_on_leaves_the_mean() {
    let config = TreesConfig {
        row_fraction: 0.5,
        ..small(3)
    };
    let forest = grown(1, &[2.0; 8], &[5.0; 8], &config);
    assert_eq!(forest.predict(&[2.0, 3.0]), [5.0; 2]);
}

#[test]
fn thresholds_lead_where_bins_led() {
    let (inputs, targets) = example(700);
    let config = TreesConfig {
        bins: 16,
        row_fraction: 0.6,
        ..small(12)
    };
    let weights = noise(700, 5);
    let rows: Vec<u32> = (0..700).collect();
    let columns = (0..6)
        .filter_map(|feature| Column::cut(feature, 6, &inputs, &rows, config.bins))
        .collect();
    let mut grower = Grower::new(columns, targets.clone(), weights.clone(), &config, 7);
    for _ in 0..config.trees {
        grower.add_tree();
    }
    let forest = grow(6, &inputs, &targets, &weights, &config, 7, &mut |_| ());
    let scores: Vec<f32> = grower.scores.iter().map(|&score| score as f32).collect();
    assert_eq!(forest.predict(&inputs), scores);
}

#[test]
fn leaves_keep_their_least_rows() {
    let (inputs, targets) = example(200);
    let config = TreesConfig {
        min_leaf_rows: 30,
        ..small(1)
    };
    let predictions = grown(6, &inputs, &targets, &config).predict(&inputs);
    let mut sorted = predictions.clone();
    sorted.sort_unstable_by(f32::total_cmp);
    assert!(sorted.chunk_by(|a, b| a == b).count() > 2);
    assert!(sorted.chunk_by(|a, b| a == b).all(|leaf| leaf.len() >= 30));
}

#[test]
fn bins_are_few_and_about_equally_full() {
    let mut values = noise(5000, 2);
    values.extend([0.25; 1000]);
    values.sort_unstable_by(f32::total_cmp);
    let edges = cut_edges(&values, 64);
    assert!((60..64).contains(&edges.len()), "{}", edges.len());
    assert!(edges.is_sorted_by(|a, b| a < b));
    let place = |value: f32| edges.partition_point(|&edge| edge < value);
    let mut counts = [0; 64];
    for &value in &values {
        counts[place(value)] += 1;
    }
    assert_eq!(counts[place(0.25)], 1000);
    let heavy = counts.iter().filter(|count| **count > 120).count();
    assert_eq!(heavy, 1);
    assert_eq!(cut_edges(&[1.0, 1.0, 2.0, 4.0], 255), [1.5, 3.0]);
    assert!(cut_edges(&[1.0; 3], 255).is_empty());
}

#[test]
fn thresholds_stand_between_their_neighbours() {
    let next = f32::from_bits(1.0f32.to_bits() + 1);
    assert_eq!(between(1.0, next), 1.0);
    assert_eq!(between(f32::MIN, f32::MAX), 0.0);
    assert_eq!(between(0.0, f32::INFINITY), 0.0);
}
