//! Leaves the hidden units out of a net that no sample switches on, and orders the others.
//!
//! Of the last hidden layer of a distilled net up to 112 of 128 units are 0 for every shape: without them a row costs less, and
//! the answers stay as they are but for the rounding of their last sum. Evaluation reads hidden units in pairs and skips those
//! that are both 0 (`regressor::kernel`), so units that the same samples switch on become neighbours.

use crate::regressor::net::{Layer, Net};
use crate::train::fit::{Computer, forward};

/// `net` with the hidden units that some of these rows of normalised features switch on.
pub fn pruned(mut net: Net, rows: &[f32], computer: &Computer) -> Net {
    for depth in 1..net.layers.len() {
        let below = net.first_layers(depth);
        let order = order(&forward(&below, rows, computer), below.outputs());
        // A layer without a unit would have no width.
        if !order.is_empty() {
            net.layers[depth - 1] = with_outputs(&net.layers[depth - 1], &order);
            net.layers[depth] = with_inputs(&net.layers[depth], &order);
        }
    }
    net
}

/// The units that are above 0 in some row of `values`, each next to the one that is most often above 0 together with it.
fn order(values: &[f32], width: usize) -> Vec<usize> {
    let rows = values.len() / width;
    let mut on = vec![vec![0u64; rows.div_ceil(64)]; width];
    for (row, values) in values.chunks_exact(width).enumerate() {
        for (unit, &value) in values.iter().enumerate() {
            on[unit][row / 64] |= u64::from(value > 0.0) << (row % 64);
        }
    }
    let together = |one: usize, other: usize| -> u32 {
        let words = on[one].iter().zip(&on[other]);
        words.map(|(one, other)| (one & other).count_ones()).sum()
    };
    let mut left: Vec<usize> = (0..width).filter(|&unit| together(unit, unit) > 0).collect();
    left.sort_by_key(|&unit| std::cmp::Reverse(together(unit, unit)));
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let first = left.remove(0);
        order.push(first);
        let partner = (0..left.len()).max_by_key(|&place| together(first, left[place]));
        order.extend(partner.map(|place| left.remove(place)));
    }
    order
}

/// `layer` with these of its outputs, in this order.
fn with_outputs(layer: &Layer, order: &[usize]) -> Layer {
    let of = |numbers: &[f32]| order.iter().map(|&unit| numbers[unit]).collect::<Vec<_>>();
    Layer {
        inputs: layer.inputs,
        outputs: order.len(),
        weight: layer.weight.chunks_exact(layer.outputs).flat_map(of).collect(),
        bias: of(&layer.bias),
    }
}

/// `layer` with these of its inputs, in this order.
fn with_inputs(layer: &Layer, order: &[usize]) -> Layer {
    let of = |&unit: &usize| &layer.weight[unit * layer.outputs..][..layer.outputs];
    Layer {
        inputs: order.len(),
        outputs: layer.outputs,
        weight: order.iter().flat_map(of).copied().collect(),
        bias: layer.bias.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::fit::Backend;

    #[test]
    fn units_that_no_row_switches_on_go_and_those_that_go_together_are_neighbours() {
        // The first and the third unit are on where the input is positive, the second where it is negative, the fourth never.
        let first = Layer {
            inputs: 1,
            outputs: 4,
            weight: vec![1.0, -1.0, 2.0, 0.0],
            bias: vec![0.0, 0.0, -0.5, -1.0],
        };
        let last = Layer {
            inputs: 4,
            outputs: 1,
            weight: vec![1.0, 10.0, 100.0, 1000.0],
            bias: vec![0.25],
        };
        let net = Net {
            layers: vec![first, last],
        };
        let rows = [-3.0, 0.2, 1.0, 2.0];
        let computer = Backend::Cpu.device().unwrap();
        let pruned = pruned(net.clone(), &rows, &computer);
        assert_eq!(pruned.hidden(), [3]);
        assert_eq!(pruned.layers[0].weight, [1.0, 2.0, -1.0]);
        assert_eq!(pruned.layers[0].bias, [0.0, -0.5, 0.0]);
        assert_eq!(pruned.layers[1].weight, [1.0, 100.0, 10.0]);
        assert_eq!(pruned.forward(&rows), net.forward(&rows));
        let none = super::pruned(net.clone(), &[], &computer);
        assert_eq!(none, net, "no row constrains anything");
    }
}
