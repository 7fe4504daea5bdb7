//! The reference against hand values and finite differences.

use crate::measure::reference::{error, inputs, operands, run};
use crate::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};

fn memory(kind: MemoryKind, pass: Pass, rows: u64, cols: u64) -> Op {
    Op::Memory(Memory {
        kind,
        rows,
        cols,
        pass,
        dtype: Dtype::Fp32,
    })
}

fn attention(pass: Pass, causal: bool, window: u64) -> Attention {
    Attention {
        kv_heads: 2,
        seq_q: 3,
        value_dim: 6,
        causal,
        window,
        pass,
        dtype: Dtype::Fp32,
        ..Attention::new(2, 4, 5, 4)
    }
}

/// `Σ weights · output`.
fn weighted(output: &[f32], weights: &[f32]) -> f64 {
    let pairs = output.iter().zip(weights);
    pairs.map(|(&y, &w)| f64::from(y) * f64::from(w)).sum()
}

/// Holds `gradient` against central differences of `Σ weights · forward(inputs)[0]` along input
/// `which`.
fn differentiate(forward: &Op, inputs: &[Vec<f32>], which: usize, weights: &[f32], gradient: &[f32]) {
    let step = 1e-2f32;
    let shifted = |at: usize, by: f32| {
        let mut inputs = inputs.to_vec();
        inputs[which][at] += by;
        weighted(&run(forward, &inputs)[0], weights)
    };
    let differences: Vec<f32> = (0..inputs[which].len())
        .map(|at| ((shifted(at, step) - shifted(at, -step)) / (2.0 * f64::from(step))) as f32)
        .collect();
    let wrong = error(gradient, &differences);
    assert!(wrong < 2e-3, "{forward:?} input {which}: {wrong}");
}

#[test]
fn gemms_in_every_layout_agree_with_the_stored_orders() {
    // (1 2 3; 4 5 6) x (1 4; 2 5; 3 6) = (14 32; 32 77).
    let (row_major, transposed) = ([1., 2., 3., 4., 5., 6.], [1., 4., 2., 5., 3., 6.]);
    for layout in Layout::ALL {
        let first = match layout {
            Layout::Tn | Layout::Nn => row_major,
            Layout::Nt | Layout::Tt => transposed,
        };
        let second = match layout {
            Layout::Nn | Layout::Nt => transposed,
            Layout::Tn | Layout::Tt => row_major,
        };
        let op = Op::Gemm(Gemm {
            batch: 2,
            layout,
            ..Gemm::new(2, 2, 3)
        });
        let twice = |values: [f32; 6]| [values, values].concat();
        let output = run(&op, &[twice(first), twice(second)]);
        let member = [14., 32., 32., 77.];
        assert_eq!(output, [[member, member].concat()], "{layout:?}");
    }
}

#[test]
fn one_visible_key_returns_its_value() {
    let op = Attention {
        seq_q: 5,
        window: 1,
        ..attention(Pass::Forward, true, 0)
    };
    let drawn = inputs(&Op::Attention(op), 1);
    let outputs = run(&Op::Attention(op), &drawn);
    // Head 3 of batch member 1 reads key head 3 / 2 = 1; query 2 sees key 2 alone.
    let query = ((4 + 3) * 5 + 2) * 6;
    let value = ((2 + 1) * 5 + 2) * 6;
    assert_eq!(outputs[0][query..query + 6], drawn[2][value..value + 6]);
}

#[test]
fn attention_gradients_agree_with_finite_differences() {
    for (causal, window) in [(false, 0), (true, 0), (true, 2)] {
        let forward = Op::Attention(attention(Pass::Forward, causal, window));
        let backward = Op::Attention(attention(Pass::Backward, causal, window));
        let drawn = inputs(&backward, 7);
        let gradients = run(&backward, &drawn);
        for (which, gradient) in gradients.iter().enumerate() {
            differentiate(&forward, &drawn[..3], which, &drawn[4], gradient);
        }
    }
}

#[test]
fn gradients_of_memory_bound_kernels_agree_with_finite_differences() {
    use MemoryKind::{CrossEntropy, Dropout, Gelu, LayerNorm, Mask, Permute, RmsNorm, Rotary, Swiglu};
    // Kind, forward inputs among those of backward, which of them has which gradient, where `dy`
    // is.
    type Case = (MemoryKind, &'static [usize], &'static [(usize, usize)], usize);
    let cases: &[Case] = &[
        (Gelu, &[0], &[(0, 0)], 1),
        (Swiglu, &[0, 1], &[(0, 0), (1, 1)], 2),
        (LayerNorm, &[0, 1, 1], &[(0, 0), (1, 1), (2, 2)], 2),
        (RmsNorm, &[0, 1], &[(0, 0), (1, 1)], 2),
        (CrossEntropy, &[0, 1], &[(0, 0)], 3),
    ];
    for &(kind, forward_inputs, gradients, upstream) in cases {
        let forward = memory(kind, Pass::Forward, 3, 8);
        let backward = memory(kind, Pass::Backward, 3, 8);
        let drawn = inputs(&backward, 3);
        let outputs = run(&backward, &drawn);
        let read: Vec<_> = forward_inputs.iter().map(|&at| drawn[at].clone()).collect();
        for &(input, output) in gradients {
            differentiate(&forward, &read, input, &drawn[upstream], &outputs[output]);
        }
    }
    // These are linear, so backward is the transpose of forward.
    for kind in [Dropout, Rotary, Permute, Mask] {
        let forward = memory(kind, Pass::Forward, 8, 8);
        let backward = memory(kind, Pass::Backward, 8, 8);
        let (x, dy) = (inputs(&forward, 3), inputs(&backward, 3));
        let mut y = run(&forward, &x).swap_remove(0);
        y.iter_mut().filter(|y| y.is_infinite()).for_each(|y| *y = 0.0);
        // Equal seeds draw equal orders, and flags and angles are no matter of chance.
        let dx = run(&backward, &dy).swap_remove(0);
        let (left, right) = (weighted(&y, &dy[0]), weighted(&dx, &x[0]));
        assert!((left - right).abs() < 1e-4, "{kind:?}: {left} {right}");
    }
}

#[test]
fn the_gradient_of_softmax_is_that_of_its_scores() {
    let (forward, backward) = (
        memory(MemoryKind::Softmax, Pass::Forward, 2, 5),
        memory(MemoryKind::Softmax, Pass::Backward, 2, 5),
    );
    let scores = inputs(&forward, 5);
    let y = run(&forward, &scores).swap_remove(0);
    assert!((y[..5].iter().sum::<f32>() - 1.0).abs() < 1e-6);
    let dy = inputs(&backward, 5).swap_remove(1);
    let dx = run(&backward, &[y, dy.clone()]).swap_remove(0);
    differentiate(&forward, &scores, 0, &dy, &dx);
}

#[test]
fn values_by_hand() {
    let at = |kind, pass, inputs: &[&[f32]], cols: u64| {
        let inputs: Vec<_> = inputs.iter().map(|values| values.to_vec()).collect();
        let rows = inputs[0].len() as u64 / cols;
        run(&memory(kind, pass, rows, cols), &inputs)
    };
    let forward = Pass::Forward;
    let close = |left: &[f32], right: &[f32]| assert!(error(left, right) < 1e-6, "{left:?}");
    close(&at(MemoryKind::Gelu, forward, &[&[1.0, 0.0]], 2)[0], &[0.841_192, 0.0]);
    close(
        &at(MemoryKind::Swiglu, forward, &[&[1.0], &[3.0]], 1)[0],
        &[2.193_175_7],
    );
    close(
        &at(MemoryKind::RmsNorm, forward, &[&[3.0, 4.0], &[1.0, 2.0]], 2)[0],
        &[0.848_527_8, 2.262_740_8],
    );
    close(
        &at(MemoryKind::CrossEntropy, forward, &[&[0.0, 0.0], &[1.0]], 2)[0],
        &[std::f32::consts::LN_2],
    );
    close(
        &at(MemoryKind::Embedding, forward, &[&[1., 2., 3., 4.], &[1., 1.]], 2)[0],
        &[3., 4., 3., 4.],
    );
    // 3.3 lies between the E4M3 numbers 3.25 and 3.5, -500 beyond the largest of them.
    let cast = at(
        MemoryKind::Quantize,
        forward,
        &[&[1.65, 1.0, -250.0, 0.0], &[2.0], &[1.0]],
        2,
    );
    assert_eq!(cast[0], [250.0]);
    assert_eq!(cast[1], [3.25, 2.0, -448.0, 0.0]);
    assert_eq!(cast[2], [3.25, -448.0, 2.0, 0.0]);
    let masked = at(MemoryKind::Mask, forward, &[&[1., 2., 3., 4.]], 2);
    assert_eq!(masked[0], [1., f32::NEG_INFINITY, 3., 4.]);
    // At the second position the first pair turns by one radian.
    let rotary = memory(MemoryKind::Rotary, forward, 2, 2);
    let tables = inputs(&rotary, 0);
    let turned = run(&rotary, &[vec![1., 0., 1., 0.], tables[1].clone(), tables[2].clone()]);
    close(&turned[0], &[1., 0., 0.540_302_3, 0.841_471]);
    // m = 0.1, v = 0.001, corrected by 1 - 0.9^10 and 1 - 0.999^10; weight 2 decays by 2e-4.
    let adam = at(MemoryKind::Adam, forward, &[&[1.0], &[2.0], &[0.0], &[0.0]], 1);
    close(&adam[0], &[2.0 - 1e-3 * (0.153_535_4 / 0.316_944_7 + 0.2)]);
}

#[test]
fn operands_move_the_bytes_that_the_operator_counts() {
    for kind in MemoryKind::ALL {
        for pass in Pass::ALL {
            for dtype in [Dtype::Fp32, Dtype::Bf16] {
                let (rows, cols) = (1 << 20, 1 << 12);
                let op = Op::Memory(Memory {
                    kind,
                    rows,
                    cols,
                    pass,
                    dtype,
                });
                let Some(operands) = operands(&op) else {
                    use MemoryKind::{Adam, Quantize, Zero};
                    let is_forward_only = [Adam, Quantize, Zero].contains(&kind) && pass == Pass::Backward;
                    let has_no_kernel = [
                        MemoryKind::AccumulateGradient,
                        MemoryKind::CastFp8,
                        MemoryKind::CausalConv,
                        MemoryKind::CausalConvStep,
                        MemoryKind::Downcast,
                        MemoryKind::PlainAdam,
                        MemoryKind::Upcast,
                    ];
                    assert!(is_forward_only || has_no_kernel.contains(&kind), "{kind:?}");
                    continue;
                };
                let all = operands.inputs.iter().chain(&operands.outputs);
                let moved: u64 = all.map(|o| o.elements * o.element.size(dtype)).sum();
                let ratio = moved as f64 / op.bytes().bytes();
                assert!((ratio - 1.0).abs() < 0.01, "{kind:?} {pass:?} {dtype:?}: {ratio}");
            }
        }
    }
}

#[test]
fn equal_seeds_draw_equal_inputs_as_a_device_holds_them() {
    let op = Op::Attention(Attention {
        dtype: Dtype::Bf16,
        ..attention(Pass::Backward, true, 0)
    });
    assert_eq!(inputs(&op, 4), inputs(&op, 4));
    assert_ne!(inputs(&op, 4), inputs(&op, 5));
    for values in &inputs(&op, 4)[..5] {
        assert!(values.iter().all(|value| value.to_bits() & 0xffff == 0));
    }
}

#[test]
fn an_error_is_relative_and_infinite_where_numbers_are_not() {
    assert_eq!(error(&[1.1, 2.0], &[1.0, 2.0]), f64::from(1.1f32 - 1.0) / 5f64.sqrt());
    let minus = f32::NEG_INFINITY;
    assert_eq!(error(&[minus, 2.0], &[minus, 2.0]), 0.0);
    for wrong in [&[minus, 2.0][..], &[f32::NAN, 2.0], &[1.0]] {
        assert_eq!(error(wrong, &[1.0, 2.0]), f64::INFINITY, "{wrong:?}");
    }
}
