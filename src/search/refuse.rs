//! Why no shape meets a request: which bound or which part of the memory binds, and what would free it.

use crate::arch::Dimension;
use crate::arch::Recompute;
use crate::arch::Workload;
use crate::arch::memory_use;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::ops::Dtype;
use crate::search::shape::Shape;
use crate::search::shape::ShapeFamily;
use crate::search::space::Space;
use crate::units::Bytes;
use crate::units::significant;

/// Shape families between two looks at whether the answer is still wanted.
const BETWEEN_LOOKS: usize = 4096;

/// Whether the answer is still wanted; if not, what is being found out is cut short and means nothing.
type GoOn<'a> = dyn Fn() -> bool + Sync + 'a;

/// No shape of the lattice has the parameters: names every single bound, or fixed dimension, whose lifting helps.
pub fn no_shape(space: &Space, target: u64, tolerance: f64, go_on: &GoOn<'_>) -> Error {
    let mut helps = Vec::new();
    for bound in space.bounds.all() {
        let mut bounds = space.bounds.clone();
        bounds.relax(bound.name);
        let space = Space {
            bounds,
            ..space.clone()
        };
        if has_shapes(&space, go_on) {
            helps.push(format!("`--relax {}`", bound.name.name()));
        }
    }
    for (dimension, fixed) in space.fixed.without_each() {
        let space = Space { fixed, ..space.clone() };
        if has_shapes(&space, go_on) {
            let option = match dimension {
                Dimension::MoeDFf => Dimension::DFf,
                other => other,
            };
            helps.push(format!("without `--{}`", option.name().replace('_', "-")));
        }
    }
    let any_active = Space {
        active: None,
        ..space.clone()
    };
    if space.active.is_some() && has_shapes(&any_active, go_on) {
        helps.push("another `--active-params`".to_owned());
    }
    let wide = Space {
        budget: ((target as f64 * 0.9) as u64, (target as f64 * 1.1) as u64),
        ..space.clone()
    };
    if has_shapes(&wide, go_on) {
        helps.push("`--tolerance 0.1`".to_owned());
    }
    let helps = if helps.is_empty() {
        "no single bound is to blame: change `--vocab`, the fixed dimensions or the number of parameters".to_owned()
    } else {
        format!("what would free it: {}", helps.join(", or "))
    };
    Error::infeasible(format!(
        "search: no shape within the bounds has {target} parameters ({}) within {} %; {helps}",
        space.count.name(),
        significant(tolerance * 100.0)
    ))
}

/// No shape fits the memory: the part that weighs most in the smallest one, and every single change that helps.
/// `None` if no shape is within the bounds.
pub fn nothing_fits(space: &Space, gpu: &Gpu, families: &[ShapeFamily], go_on: &GoOn<'_>) -> Option<Error> {
    let (shape, total) = smallest(space, families)?;
    let (arch, work) = space.build(&shape);
    let memory = memory_use(&arch, &work, &space.practice).expect("it was computed before");
    if memory.total() <= space.room {
        return None;
    }
    let (part, bytes) = memory
        .parts()
        .into_iter()
        .max_by(|a, b| a.1.bytes().total_cmp(&b.1.bytes()))
        .expect("there are parts");
    let helps: Vec<_> = changes(space)
        .into_iter()
        .filter(|(_, changed)| {
            let space = Space {
                layouts: vec![*changed],
                free: Vec::new(),
                ..space.clone()
            };
            let families = all_families(&space, go_on).unwrap_or_default();
            self::smallest(&space, &families).is_some_and(|(shape, _)| {
                let (arch, work) = space.build(&shape);
                memory_use(&arch, &work, &space.practice).is_ok_and(|memory| memory.total() <= space.room)
            })
        })
        .map(|(text, _)| text)
        .collect();
    let helps = if helps.is_empty() {
        "no single change of batch, ranks, stages, sharding or recomputation frees enough: combine them".to_owned()
    } else {
        format!("what would free it: {}", helps.join(", or "))
    };
    Some(Error::infeasible(format!(
        "search: no shape of this size fits the {} of {}: the smallest of those tried takes {total} per GPU, most of it {} ({bytes}); {helps}",
        gpu.memory(),
        gpu.name,
        part.replace('_', " "),
    )))
}

fn has_shapes(space: &Space, go_on: &GoOn<'_>) -> bool {
    let (mut arch, mut work) = (space.base.clone(), space.layouts[0]);
    // More families than can be held are shapes too.
    all_families(space, go_on).is_none_or(|families| {
        let blocks = families.chunks(BETWEEN_LOOKS).take_while(|_| go_on());
        blocks.flatten().flat_map(ShapeFamily::shapes).any(|shape| {
            space.fill(&shape, &mut arch, &mut work);
            space.bounds.admit(&arch) && work.validate(&arch).is_ok()
        })
    })
}

/// The families of a space; `None` if there are too many, or the caller asked to stop.
fn all_families(space: &Space, go_on: &GoOn<'_>) -> Option<Vec<ShapeFamily>> {
    if !go_on() {
        return None;
    }
    space.families(go_on).ok().flatten()
}

/// The shape of a sample that takes the least memory.
fn smallest(space: &Space, families: &[ShapeFamily]) -> Option<(Shape, Bytes)> {
    let (mut arch, mut work) = (space.base.clone(), space.layouts[0]);
    let sample = families.iter().step_by(families.len().div_ceil(2048).max(1));
    sample
        .filter_map(|family| {
            let shape = family.shape(0);
            space.fill(&shape, &mut arch, &mut work);
            let memory = memory_use(&arch, &work, &space.practice).ok()?;
            space.bounds.admit(&arch).then(|| (shape, memory.total()))
        })
        .min_by(|a, b| a.1.bytes().total_cmp(&b.1.bytes()))
}

/// Changes of the workload, the mildest first, each with the options that ask for it.
fn changes(space: &Space) -> Vec<(String, Workload)> {
    use Dimension::{Batch, Dp, Pp, Tp, Zero};
    let work = space.layouts[0];
    let with = |values: &[(Dimension, u64)]| {
        let (mut arch, mut work) = (space.base.clone(), work);
        let options = values.iter().map(|(dimension, value)| {
            dimension.put(&mut arch, &mut work, *value);
            format!("--{dimension} {value}")
        });
        (format!("`{}`", options.collect::<Vec<_>>().join(" ")), work)
    };
    let mut changes = Vec::new();
    if work.batch > 1 {
        changes.push(with(&[(Batch, 1)]));
    }
    if work.trains() {
        let recompute = Recompute::Full;
        if work.recompute != recompute {
            let text = format!("`--recompute {recompute}`");
            changes.push((text, Workload { recompute, ..work }));
        }
        for (dp, zero) in [(8, 1), (64, 3)] {
            changes.push(with(&[(Dp, work.dp.max(dp)), (Zero, zero)]));
        }
    } else if work.dtype.size() > Dtype::Fp8.size() {
        let dtype = Dtype::Fp8;
        changes.push((format!("`--dtype {dtype}`"), Workload { dtype, ..work }));
    }
    let more = |dimension: Dimension, counts: &[u64]| -> Vec<_> {
        let now = dimension.get(&space.base, &work);
        let counts = counts.iter().filter(|&&count| count > now);
        counts.map(|count| with(&[(dimension, *count)])).collect()
    };
    changes.extend(more(Tp, &[2, 4, 8, 16]));
    changes.extend(more(Pp, &[2, 4, 8]));
    let mut split = vec![(Tp, work.tp.max(8)), (Pp, work.pp.max(8))];
    changes.push(with(&split));
    if work.trains() {
        split.extend([(Dp, work.dp.max(8)), (Zero, u64::from(work.zero.max(1)))]);
        changes.push(with(&split));
    }
    changes
}
