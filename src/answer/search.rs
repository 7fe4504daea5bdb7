//! The fastest shapes on a GPU, and what the same search finds on other GPUs and in other number formats.

use crate::answer::step_bases;
use crate::arch::{Recipe, Workload, config_json};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::ops::Dtype;
use crate::predict::Predictor;
use crate::report::search::{ElsewhereKeys, SearchReport};
use crate::request::{LEAST_POSITIONS, SearchRequest, TargetRequest};
use crate::search::{self, Request, Service, Watch};
use std::borrow::Borrow;
use std::iter;
use std::sync::Arc;

/// The most other GPUs of one search.
const MOST_GPUS: usize = 16;

/// The shapes that `searched`, the search of the request `asked`, finds where `home` predicts, and the best of the same
/// search elsewhere; `of` is the predictor of a target.
pub fn search<P: Borrow<Predictor> + Into<Arc<Predictor>>>(
    home: &Predictor,
    asked: &SearchRequest,
    searched: &Request,
    target: &TargetRequest,
    of: impl Fn(&TargetRequest) -> Result<P>,
    watch: &Watch<'_>,
) -> Result<SearchReport> {
    // A bad request fails before the search begins.
    let gpus = others(home.gpu(), &asked.also_gpus)?;
    let searched = &serving(home.gpu(), asked, searched, target, &of)?;
    let found = search::search(home, searched, watch)?;
    let of = |gpu: &Gpu| {
        of(&TargetRequest {
            gpu: Some(gpu.name.clone()),
            ..target.clone()
        })
    };
    let elsewhere = elsewhere(home, &gpus, asked, searched, of, watch)?;
    let basis = step_bases(home, found.request.workload.mode, &found.shapes[0].step)?;
    let report = SearchReport::new(home, &found, basis).with_elsewhere(elsewhere);
    if !asked.export {
        return Ok(report);
    }
    let positions = found.request.workload.keys().max(LEAST_POSITIONS);
    let shapes = found.shapes.iter();
    let configs = shapes.map(|shape| config_json(&shape.ranked.architecture, positions));
    Ok(report.with_configs(configs.collect()))
}

/// The search of the request `asked` with what is served after the training.
pub fn serving<P: Into<Arc<Predictor>>>(
    home: &Gpu,
    asked: &SearchRequest,
    searched: &Request,
    target: &TargetRequest,
    of: impl Fn(&TargetRequest) -> Result<P>,
) -> Result<Request> {
    Ok(Request {
        service: service(home, asked, searched, target, of)?,
        ..searched.clone()
    })
}

/// What is served after the training; `None` if nothing is.
fn service<P: Into<Arc<Predictor>>>(
    home: &Gpu,
    asked: &SearchRequest,
    searched: &Request,
    target: &TargetRequest,
    of: impl Fn(&TargetRequest) -> Result<P>,
) -> Result<Option<Service>> {
    let Some(life) = asked.life(searched, home)? else {
        return Ok(None);
    };
    let gpu = asked.serve_gpu.clone().or(target.gpu.clone());
    // What answers for the training may not serve.
    let predictor: Arc<Predictor> = of(&TargetRequest {
        gpu,
        model: target.model.clone().filter(|_| asked.serve_gpu.is_none()),
        framework: None,
        ..target.clone()
    })?
    .into();
    predictor.gpu().require(life.workload.dtypes())?;
    let usd_per_gpu_hour = asked.usd_per_gpu_hour.as_ref().map(|prices| {
        let gpus = [home, predictor.gpu()];
        prices.check("search", &gpus)?;
        let prices = prices.of(gpus[0]).zip(prices.of(gpus[1]));
        prices.map(<[f64; 2]>::from).ok_or_else(|| {
            let allowed = format!("one price, or those of {} and {}", gpus[0].name, gpus[1].name);
            Error::field("search", "usd_per_gpu_hour", "of one GPU", &allowed)
        })
    });
    Ok(Some(Service {
        usd_per_gpu_hour: usd_per_gpu_hour.transpose()?,
        predictor,
        life,
    }))
}

/// Searches again in every other format and on every other GPU, one after the other.
fn elsewhere<P: Borrow<Predictor>>(
    home: &Predictor,
    gpus: &[&'static Gpu],
    asked: &SearchRequest,
    searched: &Request,
    of: impl Fn(&Gpu) -> Result<P>,
    watch: &Watch<'_>,
) -> Result<Vec<ElsewhereKeys>> {
    let wide = home.gpu().usual_dtype();
    let own = (searched.workload.dtype, searched.workload.recipe);
    let others = asked.also_dtypes.iter().map(|&dtype| Recipe::of_format(dtype, wide));
    let formats = each_once(iter::once(own).chain(others).collect());
    let search = |predictor: &Predictor, (dtype, recipe): (Dtype, Recipe)| {
        let workload = Workload {
            dtype,
            recipe,
            ..searched.workload
        };
        let request = Request {
            workload,
            ..searched.clone()
        };
        let found = search::search(predictor, &request, watch);
        ElsewhereKeys::new(predictor.gpu(), workload.linear_dtype(), found)
    };
    let mut all: Vec<_> = formats[1..].iter().map(|&format| search(home, format)).collect();
    for gpu in gpus {
        let predictor = of(gpu)?;
        all.extend(formats.iter().map(|&format| search(predictor.borrow(), format)));
    }
    Ok(all)
}

/// Each item once, where it is first.
fn each_once<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(all.len());
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

/// The GPUs of these names but for `home`, each once.
fn others(home: &Gpu, names: &[String]) -> Result<Vec<&'static Gpu>> {
    if names.len() > MOST_GPUS {
        let allowed = format!("at most {MOST_GPUS} GPUs");
        return Err(Error::field("search", "also_gpus", names.len(), &allowed));
    }
    let found = Gpu::find_each(names.iter().map(String::as_str));
    let mut gpus = found.map_err(|error| match error.field_error() {
        Some(wrong) => Error::field("search", "also_gpus", &wrong.value, &wrong.allowed),
        None => error,
    })?;
    gpus.retain(|gpu| gpu.name != home.name);
    Ok(gpus)
}
