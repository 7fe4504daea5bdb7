//! The lattice of one search, and what its shapes are measured by.

use crate::arch::{Architecture, Dimension, MemoryUse};
use crate::error::{Error, Result};
use crate::predict::Predictor;
use crate::predict::step::{StepEstimate, estimate_step};
use crate::search::bounds::{Bounds, Quantity};
use crate::search::goal::Yardstick;
use crate::search::layout::{self, Planned};
use crate::search::loss::Referee;
use crate::search::objective::Scale;
use crate::search::serving::Served;
use crate::search::shape::ShapeFamily;
use crate::search::space::Space;
use crate::search::{PARAMETERS, Progress, Request, USUAL_LATENT, Watch, refuse};
use crate::units::Seconds;

/// Name of the shape that replaces a published model.
const STAND_IN: &str = "centre-of-bounds";

/// All shapes of a search, with everything that decides what is seen of one.
pub struct Lattice {
    /// The request, with the workload that the baseline runs in the end.
    pub request: Request,
    /// Its shapes.
    pub space: Space,
    /// The same as families, by rising hidden width.
    pub families: Vec<ShapeFamily>,
    /// The layouts, where each shape has one of its own.
    pub planned: Option<Planned>,
    /// The baseline under its workload.
    pub baseline: StepEstimate,
    /// Judges what a shape costs in loss.
    pub referee: Referee,
    /// What a goal makes of a shape.
    pub yardstick: Option<Yardstick>,
    /// What serving the baseline takes.
    served: Option<Served>,
}

impl Lattice {
    /// That of a request.
    pub fn of(predictor: &Predictor, request: &Request, watch: &Watch<'_>) -> Result<Self> {
        predictor.gpu().require(request.workload.dtypes())?;
        let base = &request.base;
        for (is_other, allowed) in [
            (
                base.mlp_layers == Some(0) || base.index.is_some(),
                "a model with MLPs and no index of keys, as those of the lattice are",
            ),
            (
                !base.kinds.is_empty() || !base.further.is_empty(),
                "a model whose layers are of one shape without further maps, as those of the lattice are",
            ),
        ] {
            if is_other {
                return Err(Error::field("search", "like", &base.name, allowed));
            }
        }
        let mut request = request.clone();
        let mut space = space_of(predictor, &request)?;
        let wanted = || go_on(watch);
        let mut families = space.families(&wanted)?.ok_or_else(interrupted_early)?;
        if families.is_empty() {
            return Err(no_shape(&request, &space, watch));
        }
        let planned = Planned::of(predictor, &request, &space, &families)?;
        if let Some(planned) = &planned {
            planned.spread(&mut request, &mut space);
            families = space.families(&wanted)?.ok_or_else(interrupted_early)?;
        }
        let stand_in = |request: &Request| -> Result<Architecture> {
            let centre = layout::centre(&space, &families);
            let centre = centre.ok_or_else(|| no_shape(request, &space, watch))?;
            Ok(Architecture {
                name: STAND_IN.to_owned(),
                ..centre
            })
        };
        if request.stands_in {
            request.baseline = stand_in(&request)?;
        }
        // Losses of different tokenizers do not compare.
        request.equal_loss &= !request.named || request.vocab == request.baseline.vocab;
        if let Some(planned) = &planned
            && let Some(own) = planned.best(predictor, &request.baseline)
        {
            request.workload = own;
        }
        let mut baseline = estimate_step(predictor, &request.baseline, &request.workload);
        if baseline.is_err() && !request.named && !request.stands_in {
            // The layout of the others does not divide it.
            request.baseline = stand_in(&request)?;
            request.stands_in = true;
            baseline = estimate_step(predictor, &request.baseline, &request.workload);
        }
        let baseline = baseline?;
        let reference = baseline.gpu_time_per_token();
        let service = request.service.as_ref();
        let served = service.map(|service| service.plan(&request.baseline)).transpose()?;
        let yardstick = request.goal.map(|goal| Yardstick::new(&request, goal, reference));
        // Within a budget of time, what the baseline sees in it.
        let budget = request.goal.and_then(|goal| goal.gpu_time);
        let serving = served.as_ref().map_or(Seconds::ZERO, |served| served.cost);
        let tokens = budget.map(|time| (time - serving) / reference);
        Ok(Self {
            referee: Referee::new(&request, tokens.filter(|tokens| *tokens > 0.0)),
            yardstick,
            served,
            baseline,
            planned,
            families,
            space,
            request,
        })
    }

    /// Its shapes.
    pub fn count(&self) -> u64 {
        self.families.iter().map(ShapeFamily::count).sum()
    }

    /// What its shapes are measured by.
    pub fn scale(&self) -> Scale<'_> {
        let costs_none = self.request.goal.is_none() && self.request.equal_loss;
        Scale {
            reference: self.baseline.gpu_time_per_token(),
            yardstick: self.yardstick.as_ref(),
            service: self.request.service.as_ref().zip(self.served.as_ref()),
            referee: costs_none.then_some(&self.referee),
        }
    }

    /// Why none of its shapes was seen.
    pub fn nothing_seen(&self, predictor: &Predictor, watch: &Watch<'_>) -> Error {
        let nothing_fits = refuse::nothing_fits(&self.space, predictor.gpu(), &self.families, &|| go_on(watch));
        match nothing_fits {
            Some(refusal) => or_interrupted(refusal, watch),
            None => no_shape(&self.request, &self.space, watch),
        }
    }
}

/// Whether an answer is still wanted.
fn go_on(watch: &Watch<'_>) -> bool {
    let begun = Progress {
        done: 0,
        total: 1,
        best: None,
    };
    watch(&begun).is_continue()
}

/// No shape of the lattice has the parameters.
fn no_shape(request: &Request, space: &Space, watch: &Watch<'_>) -> Error {
    let refusal = refuse::no_shape(space, request.parameters, request.tolerance, &|| go_on(watch));
    or_interrupted(refusal, watch)
}

fn or_interrupted(refusal: Error, watch: &Watch<'_>) -> Error {
    match go_on(watch) {
        true => refusal,
        false => interrupted_early(),
    }
}

/// Refuses to answer from nothing.
pub fn interrupted_early() -> Error {
    Error::infeasible("interrupted before any shape was found")
}

fn space_of(predictor: &Predictor, request: &Request) -> Result<Space> {
    let gpu = predictor.gpu();
    let Request { base, workload, .. } = request;
    if base.moe.is_none()
        && let Some(active) = request.active
    {
        let allowed = "nothing for a dense model, where a token meets every parameter";
        return Err(Error::field("search", "active_params", active, allowed));
    }
    if !(PARAMETERS.0..=PARAMETERS.1).contains(&request.parameters) {
        let allowed = format!("{} to {}", PARAMETERS.0, PARAMETERS.1);
        return Err(Error::field("search", "params", request.parameters, &allowed));
    }
    if let Some(active) = request.active
        && active > request.parameters
    {
        let allowed = format!("at most the {} parameters of all experts", request.parameters);
        return Err(Error::field("search", "active_params", active, &allowed));
    }
    if !(0.0..=0.5).contains(&request.tolerance) {
        let allowed = "0 to 0.5, a fraction of the parameters";
        return Err(Error::field("search", "tolerance", request.tolerance, allowed));
    }
    for (dimension, size) in request.fixed.sizes() {
        // A part is fixed at 0 where there shall be none.
        let [_, most] = dimension.limits();
        if size > most {
            let allowed = format!("at most {most}");
            return Err(Error::field("search", dimension.name(), size, &allowed));
        }
    }
    let mut bounds = Bounds::new(request.parameters as f64, base, request.vocab, &request.relaxed);
    if request.named {
        bounds.reach(&request.baseline);
    }
    // Heads that are given are a choice of the user's.
    if request.fixed[Dimension::Heads].is_some() {
        bounds.relax(Quantity::Heads);
    }
    if request.fixed[Dimension::HeadDim].is_some() {
        bounds.give(Quantity::HeadDim);
    }
    if let Some(size) = request.fixed[Dimension::HeadDim]
        && base.mla.is_none()
        && let [least, most] = bounds.widest(Quantity::HeadDim)
        && !(least..=most).contains(&(size as f64))
    {
        let allowed = format!("{least} to {most}");
        return Err(Error::field("search", "head_dim", size, &allowed));
    }
    let within = |target: u64, tolerance: f64| {
        let least = (target as f64 * (1.0 - tolerance)).ceil();
        let most = (target as f64 * (1.0 + tolerance)).floor();
        (least as u64, most as u64)
    };
    Ok(Space {
        bounds,
        base: base.clone(),
        layouts: vec![*workload],
        interleaved: Vec::new(),
        room: MemoryUse::room(gpu, 1.0, workload.trains()),
        practice: predictor.practice(workload.mode),
        window_size: request.window_size,
        latent: base.mla.unwrap_or(USUAL_LATENT),
        budget: within(request.parameters, request.tolerance),
        count: request.count,
        active: request.active.map(|active| within(active, request.active_tolerance())),
        vocab: request.vocab,
        fixed: request.fixed,
        free: request.free.clone(),
        linear_shares: request.linear_shares.clone(),
    })
}
