//! Tests of sweeps against the positions that arXiv 2401.14489 measured.

use super::*;
use crate::arch::Dimension;
use crate::arch::Preset;
use crate::gpu::Gpu;
use crate::ops::Attention;
use crate::ops::Dtype;
use crate::ops::Gemm;
use crate::ops::Layout;
use crate::ops::Pass;

fn gemm(n: u64) -> Result<Op> {
    Ok(Op::Gemm(Gemm {
        m: 2304,
        n,
        k: 4096,
        batch: 1,
        layout: Layout::Tn,
        dtype: Dtype::Fp16,
    }))
}

fn waves_on(gpu: &str) -> Sweep {
    let predictor = Predictor::new(Gpu::find(gpu).unwrap(), None).unwrap();
    operators(&predictor, Range::new(1536, 6144, 64).unwrap(), gemm).unwrap()
}

fn starts(sweep: &Sweep, name: &str) -> Vec<u64> {
    let waves = sweep.waves.iter().find(|waves| waves.tile.name() == name);
    let starts = waves.unwrap().starts.iter();
    starts.map(|wave| wave.value).collect()
}

#[test]
fn waves_begin_where_the_paper_saw_the_rate_fall() {
    let v100 = waves_on("v100");
    assert_eq!(starts(&v100, "256x128"), [2240, 3392, 4544, 5696]);
    let a100 = waves_on("a100-40gb");
    assert_eq!(starts(&a100, "128x128"), [1600, 2368, 3136, 3904, 4672, 5440]);
    assert_eq!(a100.points.len(), 73);
    let waves = &a100.waves[0];
    assert_eq!(waves.counts.len(), 73);
    assert!(a100.waves.iter().all(|other| other.fit <= waves.fit));
}

#[test]
fn drops_are_falls_from_one_point_to_the_next() {
    let sweep = waves_on("a100-40gb");
    assert!(!sweep.drops.is_empty());
    for drop in &sweep.drops {
        let at = sweep.points.iter().position(|p| p.value == drop.value);
        let at = at.unwrap();
        let ratio = sweep.points[at].rate() / sweep.points[at - 1].rate();
        assert!((1.0 - ratio - drop.depth).abs() < 1e-12 && drop.depth > DROP);
    }
}

#[test]
fn a_dimension_that_leaves_the_output_alone_makes_no_waves() {
    let predictor = Predictor::new(Gpu::find("a100").unwrap(), None).unwrap();
    let range = Range::new(1024, 2048, 256).unwrap();
    let reduction = |k| {
        let Op::Gemm(op) = gemm(4096)? else {
            unreachable!("the operator above is a GEMM")
        };
        Ok(Op::Gemm(Gemm { k, ..op }))
    };
    let sweep = operators(&predictor, range, reduction).unwrap();
    assert!(sweep.waves.iter().all(|waves| waves.starts.is_empty()));
    assert!(sweep.waves.iter().all(|waves| !waves.explains()));
}

#[test]
fn attention_is_cut_by_queries_and_decoding_is_not() {
    let predictor = Predictor::new(Gpu::find("h200").unwrap(), None).unwrap();
    let attention = |seq_q, heads| Attention {
        batch: 2,
        heads,
        kv_heads: heads,
        seq_q,
        seq_kv: 2048,
        head_dim: 128,
        value_dim: 128,
        causal: false,
        window: 0,
        pass: Pass::Forward,
        dtype: Dtype::Bf16,
    };
    let range = Range::new(2, 12, 2).unwrap();
    let prefill = operators(&predictor, range, |heads| Ok(Op::Attention(attention(2048, heads))));
    // 2 x 6 x 16 blocks of 128 queries need a second wave of 132 multiprocessors, 2 x 10 x 16 a third.
    assert_eq!(starts(&prefill.unwrap(), "128-query"), [6, 10]);
    let decode = operators(&predictor, range, |heads| Ok(Op::Attention(attention(1, heads))));
    assert!(decode.unwrap().waves.is_empty());
}

#[test]
fn impossible_values_are_counted_by_reason() {
    let predictor = Predictor::new(Gpu::find("a100").unwrap(), None).unwrap();
    let base = &Preset::find("gpt3-2.7b").unwrap().architecture;
    let sized = |heads| {
        let (mut arch, mut work) = (base.clone(), Workload::train(4, 2048));
        Dimension::Heads.set(&mut arch, &mut work, heads)?;
        Ok((arch, work))
    };
    let sweep = models(&predictor, Range::new(16, 64, 1).unwrap(), sized).unwrap();
    let values: Vec<_> = sweep.points.iter().map(|point| point.value).collect();
    assert_eq!(values, [16, 20, 32, 40, 64]);
    assert_eq!(sweep.skipped.len(), 1);
    assert_eq!(sweep.skipped[0].values.len(), 44);
    assert!(
        sweep.skipped[0]
            .reason
            .contains("`heads` is 17; allowed: a divisor of the width")
    );
    assert!(sweep.waves.is_empty());
    for point in &sweep.points {
        let Subject::Model(model) = point.subject else {
            panic!("{point:?} is no model")
        };
        assert_eq!(model.head_dim * point.value, 2560);
        assert_eq!(model.parameters, 2_651_553_280);
    }
    let none = models(&predictor, Range::new(17, 19, 1).unwrap(), sized);
    let message = none.unwrap_err().to_string();
    assert!(message.contains("`heads` is 17"), "{message}");
}
