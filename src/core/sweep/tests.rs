//! Tests of sweeps against the positions that arXiv 2401.14489 measured.

use super::*;
use crate::arch::Dimension;
use crate::arch::Preset;
use crate::gpu::Gpu;
use crate::ops::Dtype;
use crate::ops::Gemm;
use crate::ops::Layout;

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

fn swept_on(gpu: &str) -> Sweep {
    let predictor = Predictor::new(Gpu::find(gpu).unwrap(), None).unwrap();
    operators(&predictor, Range::new(1536, 6144, 64).unwrap(), gemm).unwrap()
}

#[test]
fn drops_are_falls_from_one_point_to_the_next() {
    let sweep = swept_on("a100-40gb");
    assert!(!sweep.drops.is_empty());
    for drop in &sweep.drops {
        let at = sweep.points.iter().position(|p| p.value == drop.value);
        let at = at.unwrap();
        let ratio = sweep.points[at].rate() / sweep.points[at - 1].rate();
        assert!((1.0 - ratio - drop.depth).abs() < 1e-12 && drop.depth > DROP);
    }
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
