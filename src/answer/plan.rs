//! Plans for each number of GPUs, and the best plan on each of several GPUs.

use crate::arch::{Architecture, Mode, Workload};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::ops::Dtype;
use crate::plan;
use crate::predict::Predictor;
use crate::report::plan::{CompareReport, PlanReport, Subject};
use crate::request::{PlanRequest, Planned, TargetRequest};
use std::borrow::Borrow;

/// The best layouts of a request for each number of its GPUs; fails where none of them has one.
pub fn plan(predictor: &Predictor, architecture: &Architecture, request: &PlanRequest) -> Result<PlanReport> {
    if let Some(prices) = &request.usd_per_gpu_hour {
        prices.check("plan", &[predictor.gpu()])?;
    }
    on_one_gpu(predictor, architecture, request)
}

fn on_one_gpu(predictor: &Predictor, architecture: &Architecture, request: &PlanRequest) -> Result<PlanReport> {
    let mut planned = request.planned(architecture, predictor.gpu())?;
    for query in &mut planned.queries {
        query.workload = architecture.on(predictor.gpu(), &query.workload);
    }
    let workloads = planned.queries.iter().map(|query| &query.workload);
    predictor.gpu().require(workloads.flat_map(Workload::dtypes))?;
    let subject = Subject {
        usd_per_gpu_hour: request
            .usd_per_gpu_hour
            .as_ref()
            .and_then(|prices| prices.of(predictor.gpu())),
        ..subject(architecture, request, &planned)
    };
    let mut report = PlanReport::new(predictor, &subject)?;
    if let Some(tokens) = &request.global_batch {
        report.note_tokens(tokens.0);
    }
    if request.mode == Mode::Decode && planned.queries[0].workload.mode == Mode::Prefill {
        report.note_prompts();
    }
    let mut refused = None;
    for query in &planned.queries {
        let pushed = match &planned.limits {
            Some(limits) => plan::serve(predictor, architecture, query, limits)
                .map(|engines| report.push_engines(&subject, query.gpus, &engines)),
            None => {
                plan::train(predictor, architecture, query).map(|plan| report.push_plan(&subject, query.gpus, &plan))
            }
        };
        match pushed {
            Err(error) if error.is_infeasible() => {
                if !planned.fewest {
                    report.push_refused(query.gpus, error.to_string());
                }
                refused = Some(error);
            }
            other => other?,
        }
        if planned.fewest && report.has_layouts() {
            report.note_fewest();
            break;
        }
    }
    match refused.filter(|_| !report.has_layouts()) {
        Some(error) => Err(error),
        None => Ok(report),
    }
}

/// The best plan of each model on each of the GPUs that a target names with commas between them, or on `all`.
pub fn compare<P: Borrow<Predictor>>(
    architectures: &[impl Borrow<Architecture>],
    request: &PlanRequest,
    target: &TargetRequest,
    predictor: impl Fn(&TargetRequest) -> Result<P>,
) -> Result<CompareReport> {
    let gpus = compared(target, &predictor)?;
    // Each GPU is asked in its own usual format; the heading names bf16 where one of them has it.
    let mut each = gpus.iter().map(|(_, gpu)| gpu);
    let heading = each.find(|gpu| gpu.usual_dtype() == Dtype::default());
    let heading = heading.unwrap_or(&gpus[0].1);
    let first = architectures[0].borrow();
    let planned = request.planned(first, heading)?;
    let count = match (request.gpus, &planned.queries[..]) {
        (None, _) => None,
        (Some(_), [query]) => Some(query.gpus),
        (Some(counts), _) => {
            let allowed = "one number; `plan` takes a range";
            return Err(Error::field("compare", "gpus", counts, allowed));
        }
    };
    if let Some(prices) = &request.usd_per_gpu_hour {
        prices.check("compare", &Vec::from_iter(gpus.iter().map(|(_, gpu)| gpu)))?;
    }
    let mut report = CompareReport::new(&subject(first, request, &planned), count);
    for (name, gpu) in &gpus {
        let target = on(name, target);
        // A GPU that lacks the format or cannot hold the model is listed with the reason.
        let predictor = predictor(&target).map_err(|error| error.to_string());
        for architecture in architectures {
            let architecture = architecture.borrow();
            let planned = predictor.as_ref().map_err(String::clone).and_then(|predictor| {
                on_one_gpu(predictor.borrow(), architecture, request).map_err(|error| error.to_string())
            });
            report.push(gpu, architecture, planned);
        }
    }
    Ok(report)
}

fn subject<'a>(architecture: &'a Architecture, request: &PlanRequest, planned: &'a Planned) -> Subject<'a> {
    let query = &planned.queries[0];
    Subject {
        architecture,
        workload: &query.workload,
        global_batch: query.global_batch,
        limits: planned.limits.as_ref(),
        tokens: request.tokens.map(|tokens| tokens.0),
        usd_per_gpu_hour: None,
    }
}

/// The GPUs of a target by the names that a target has for them, each once.
fn compared<P: Borrow<Predictor>>(
    target: &TargetRequest,
    predictor: impl Fn(&TargetRequest) -> Result<P>,
) -> Result<Vec<(String, Gpu)>> {
    let names = target.gpu.as_deref().unwrap_or(ALL);
    if names.trim().eq_ignore_ascii_case(ALL) {
        return Ok(Gpu::all().iter().map(|gpu| (gpu.name.clone(), gpu.clone())).collect());
    }
    let mut gpus: Vec<(String, Gpu)> = Vec::new();
    for name in names.split(',').map(str::trim) {
        let gpu = match Gpu::find(name) {
            Ok(gpu) => gpu.clone(),
            // A file may describe it.
            Err(_) => Borrow::<Predictor>::borrow(&predictor(&on(name, target))?)
                .gpu()
                .clone(),
        };
        if gpus.iter().all(|(_, known)| known.name != gpu.name) {
            gpus.push((name.to_owned(), gpu));
        }
    }
    Ok(gpus)
}

/// The same target on this GPU.
fn on(gpu: &str, target: &TargetRequest) -> TargetRequest {
    TargetRequest {
        gpu: Some(gpu.to_owned()),
        ..target.clone()
    }
}

/// Every built-in GPU.
const ALL: &str = "all";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use serde_json::{Value, json};

    fn compared_on(gpus: &str, mut body: Value) -> Result<CompareReport> {
        body["architecture"] = json!("llama-3-70b");
        body["gpus"] = json!(8);
        let request: PlanRequest = serde_json::from_value(body).unwrap();
        let target = TargetRequest {
            gpu: Some(gpus.to_owned()),
            ..TargetRequest::default()
        };
        let predictor = |target: &TargetRequest| {
            let gpu = Gpu::find(target.gpu.as_deref().unwrap_or_default())?;
            Predictor::new(gpu, None)
        };
        let arch = request.architecture.find()?;
        compare(&[arch], &request, &target, predictor)
    }

    #[test]
    fn servers_are_compared_by_latencies_and_prices_of_each_gpu() {
        let body = json!({
            "mode": "decode", "dtype": "fp8", "tpot_ms": 40.0, "ttft_ms": 1000.0,
            "usd_per_gpu_hour": "h200=3.5,b200=5",
        });
        let report = compared_on("h200,b200", body).unwrap();
        let text = report.text();
        for part in [
            "first token",
            "within 1000 ms",
            "requests each",
            "90 %",
            "USD per M tokens",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("MFU") && !text.contains("USD a run"), "{text}");
        let document = serde_json::to_value(&report).unwrap();
        for compared in document["compared"].as_array().unwrap() {
            let layout = &compared["layout"];
            let at = |key: &str| layout[key].as_f64().unwrap();
            let price = if compared["gpu"] == "h200" { 3.5 } else { 5.0 };
            let usd = price / 3600.0 / at("tokens_per_s_per_gpu") * 1e6;
            assert!((at("usd_per_million_tokens") / usd - 1.0).abs() < 1e-9);
            assert!(at("tokens_per_s_per_gpu_low") < at("tokens_per_s_per_gpu"));
            assert!(at("tokens_per_s_per_gpu_high") > at("tokens_per_s_per_gpu"));
            let kept = layout["request"]["ttft_kept_probability"].as_f64();
            assert!((0.5..1.0).contains(&kept.unwrap()), "{compared}");
        }
        let first = |body| {
            let report = serde_json::to_value(compared_on("h200,b200", body).unwrap()).unwrap();
            report["compared"][0]["gpu"].clone()
        };
        assert_eq!(first(json!({})), "b200");
        assert_eq!(first(json!({"usd_per_gpu_hour": "h200=1,b200=20"})), "h200");
        let other = json!({"usd_per_gpu_hour": "a100=2"});
        let refused = compared_on("h200", other).unwrap_err().to_string();
        assert!(refused.contains("for `a100`; allowed: prices of h200"), "{refused}");
    }
}
